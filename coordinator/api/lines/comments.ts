/** Metadata of Prometheus' text format: comments `# HELP name text`, `# TYPE name type` and `# UNIT name unit`, which stand anywhere. */
import { type MetricType, metricTypes } from '#engine/typed/metadata.ts';
import { type ToldMetadata, toldMetadata } from '#engine/write_decoder/told_metadata.ts';
import { metricNameOf, unescaped } from './openmetrics/sample.ts';

/** Of one body. */
const familiesMax = 10_000;
/** A longer comment says nothing. */
const commentBytesMax = 65_536;

const lineFeed = 0x0a;
const hash = 0x23;
const commentPattern =
  /^#[ \t]+(HELP|TYPE|UNIT)[ \t]+("(?:[^"\\]|\\.)*"|[^" \t]+)(?:[ \t]+(.*?))?[ \t\r]*$/s;

interface Told {
  type: MetricType;
  help: string;
  unit: string;
}

export class Comments {
  readonly #families = new Map<string, Told>();
  /** Of a comment that goes on in the next chunk. */
  #rest: Buffer = Buffer.alloc(0);
  #isLineStart = true;

  /** @param chunk of the text, cut anywhere. @returns comments in it */
  add(chunk: Uint8Array): number {
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    const text = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = Buffer.alloc(0);
    let count = 0;
    for (let at = text.indexOf(hash); at >= 0; ) {
      const end = text.indexOf(lineFeed, at);
      if (this.#isFirst(text, at)) {
        count += 1;
        if (end >= 0) this.#read(text.subarray(at, end));
        else if (text.length - at <= commentBytesMax) {
          // A copy: the chunk is used for others.
          this.#rest = Buffer.from(text.subarray(at));
          this.#isLineStart = true;
          return count;
        }
      }
      at = end < 0 ? -1 : text.indexOf(hash, end + 1);
    }
    if (text.length > 0) this.#isLineStart = this.#isFirst(text, text.length);
    return count;
  }

  /** Of all that came. */
  families(): readonly ToldMetadata[] {
    if (this.#rest.length > 0) this.#read(this.#rest);
    this.#rest = Buffer.alloc(0);
    return [...this.#families].map(([name, { type, help, unit }]) =>
      toldMetadata(name, type, help, unit),
    );
  }

  /** Nothing but blanks stands before it in its line. */
  #isFirst(text: Buffer, at: number): boolean {
    let before = at - 1;
    while (before >= 0 && (text[before] === 0x20 || text[before] === 0x09)) before--;
    return before < 0 ? this.#isLineStart : text[before] === lineFeed;
  }

  #read(line: Buffer): void {
    if (line.length > commentBytesMax) return;
    const [, kind, nameText, value = ''] = commentPattern.exec(line.toString()) ?? [];
    const name = kind === undefined ? null : metricNameOf(nameText!);
    if (name === null) return;
    let told = this.#families.get(name);
    if (told === undefined) {
      if (this.#families.size === familiesMax) return;
      told = { type: 'unknown', help: '', unit: '' };
      this.#families.set(name, told);
    }
    if (kind === 'HELP') told.help = unescaped(value);
    else if (kind === 'UNIT') told.unit = value;
    else told.type = metricTypes.find((type) => type === value.toLowerCase()) ?? 'unknown';
  }
}
