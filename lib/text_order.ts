/** The order of texts by their bytes in UTF-8, as the index and Prometheus have it. */

const surrogate = /[\ud800-\udfff]/;

/**
 * Less than 0 when `a` comes first. UTF-16, by which the language compares, has another order only where
 * surrogates meet what is above them.
 */
export function compareTexts(a: string, b: string): number {
  if (a === b) return 0;
  if (surrogate.test(a) || surrogate.test(b)) return Buffer.compare(Buffer.from(a), Buffer.from(b));
  return a < b ? -1 : 1;
}
