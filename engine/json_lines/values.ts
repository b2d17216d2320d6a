/** Values of exported lines that are no numbers of JSON. */

/** Prometheus' NaN. */
export const nanBits = 0x7ff8_0000_0000_0001n;

const named: ReadonlyMap<string, number> = new Map([
  ['infinity', Number.POSITIVE_INFINITY],
  ['+infinity', Number.POSITIVE_INFINITY],
  ['inf', Number.POSITIVE_INFINITY],
  ['+inf', Number.POSITIVE_INFINITY],
  ['-infinity', Number.NEGATIVE_INFINITY],
  ['-inf', Number.NEGATIVE_INFINITY],
]);

const bits = new BigUint64Array(1);
const float = new Float64Array(bits.buffer);

/** Bits of the value that a text in quotes means; null for none. */
export function bitsOfText(text: string): bigint | null {
  const lower = text.toLowerCase();
  if (lower === 'nan') return nanBits;
  const infinity = named.get(lower);
  if (infinity !== undefined) {
    float[0] = infinity;
    return bits[0]!;
  }
  if (!/^nan:[0-9a-f]{16}$/.test(lower)) return null;
  bits[0] = BigInt(`0x${lower.slice(4)}`);
  return Number.isNaN(float[0]!) ? bits[0]! : null;
}
