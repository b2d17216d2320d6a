/** Families as Prometheus' text format 0.0.4. */
import { sumOf } from '#engine/typed/histogram.ts';
import { formatGeneral } from '#engine/window_functions/number_format.ts';
import type { Tag } from '#lib/tags.ts';
import {
  classicBucketsOf,
  type ExpositionWriter,
  type FamilyType,
  type Sample,
} from './families.ts';
import { isLegacyName } from './names.ts';

/** Lines are sent together until they have so many characters. */
const partCharacters = 1 << 16;

export class TextWriter implements ExpositionWriter {
  /** Lines are sent while their family goes on. */
  readonly heldBytes = 0;
  #text = '';
  #name = '';
  #hasEnded = false;

  beginFamily(name: string, type: FamilyType): void {
    this.#name = name;
    // The format has no word for histograms of gauges.
    this.#text += `# TYPE ${shownName(name)} ${type === 'untyped' ? type : 'histogram'}\n`;
  }

  sample(labels: readonly Tag[], sample: Sample): void {
    const { millis } = sample;
    if (!('histogram' in sample)) {
      this.#line('', labels, null, doubleOf(sample.valueBits), millis);
      return;
    }
    const { histogram } = sample;
    for (const { upperBound, count } of classicBucketsOf(histogram)) {
      this.#line('_bucket', labels, upperBound, count, millis);
    }
    if (histogram.customBounds.at(-1) !== Number.POSITIVE_INFINITY) {
      this.#line('_bucket', labels, Number.POSITIVE_INFINITY, histogram.count, millis);
    }
    this.#line('_sum', labels, null, sumOf(histogram), millis);
    this.#line('_count', labels, null, histogram.count, millis);
  }

  end(): void {
    this.#hasEnded = true;
  }

  take(): readonly Uint8Array[] {
    if (this.#text.length < partCharacters && !this.#hasEnded) return [];
    const part = Buffer.from(this.#text);
    this.#text = '';
    return part.length === 0 ? [] : [part];
  }

  /** @param bound of a bucket; null of what is none */
  #line(
    suffix: string,
    labels: readonly Tag[],
    bound: number | null,
    value: number,
    millis: number,
  ): void {
    const name = this.#name + suffix;
    const isOutside = isLegacyName(name);
    const parts = isOutside ? [] : [shownName(name)];
    for (const label of labels) parts.push(`${shownName(label.name)}="${quoted(label.value)}"`);
    if (bound !== null) parts.push(`le="${shownNumber(bound)}"`);
    const braces = parts.length === 0 ? '' : `{${parts.join(',')}}`;
    this.#text += `${isOutside ? name : ''}${braces} ${shownNumber(value)} ${millis}\n`;
  }
}

function shownName(name: string): string {
  return isLegacyName(name) ? name : `"${quoted(name)}"`;
}

/** -0 has no sign here. */
function shownNumber(value: number): string {
  return value === 0 ? '0' : formatGeneral(value);
}

const special = /["\\\n]/;

function quoted(text: string): string {
  if (!special.test(text)) return text;
  return text.replace(/["\\\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`));
}

const bits = new BigUint64Array(1);
const double = new Float64Array(bits.buffer);

function doubleOf(valueBits: bigint): number {
  bits[0] = valueBits;
  return double[0]!;
}
