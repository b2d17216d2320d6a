/**
 * Whether a text is OpenMetrics 1.0 as a whole: metric families one after the other, each with its metadata first, and `# EOF`
 * at the end. Lines are read into rows elsewhere, and more leniently (engine/write_decoder/kernel/lines/exposition.ts).
 */
import { isUtf8 } from 'node:buffer';
import { lineBytesMax } from '#engine/write_decoder/lines/layout.ts';
import type { ToldMetadata } from '#engine/write_decoder/told_metadata.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { Family, metadataKinds } from './family.ts';
import { metricNameOf, type Sample, sampleOf } from './sample.ts';

/** Longest text, decoded: what was seen of one is kept until its end. */
export const openMetricsBytesMax: number = 16 << 20;

const lineFeed = 0x0a;
const metadataPattern = new RegExp(
  `^# (${metadataKinds.join('|')}) ("(?:[^"\\\\]|\\\\.)*"|[^" ]+) (.*)$`,
  's',
);

export class OpenMetricsCheck {
  /** Of a line that goes on in the next chunk. */
  #rest: Buffer = Buffer.alloc(0);
  #bytes = 0;
  #lineNumber = 0;
  #isEnded = false;
  #family: Family | null = null;
  /** Of families that ended, and of what their samples may be called. */
  readonly #names = new Set<string>();
  /** Of families that ended. */
  readonly families: ToldMetadata[] = [];
  /** Samples that have one. */
  readonly exemplars: Sample[] = [];

  /**
   * Reads the lines of a chunk, cut anywhere; gives the length of each in bytes when it is done.
   * @throws {TsdbError} BAD_REQUEST that names line and reason
   */
  *add(chunk: Uint8Array): Generator<number> {
    this.#bytes += chunk.length;
    if (this.#bytes > openMetricsBytesMax) {
      throw badRequest(
        `OpenMetrics text is checked as a whole, and longer than ${openMetricsBytesMax} bytes; text/plain is not`,
      );
    }
    const bytes = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length);
    const text = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    let at = 0;
    for (let end = text.indexOf(lineFeed); end >= 0; end = text.indexOf(lineFeed, at)) {
      this.#read(text.subarray(at, end));
      yield end - at;
      at = end + 1;
    }
    this.#rest = text.subarray(at);
    if (this.#rest.length > lineBytesMax) this.#read(this.#rest);
  }

  /** @throws as above */
  end(): void {
    if (this.#rest.length > 0) this.#read(this.#rest);
    if (!this.#isEnded) throw badRequest('not OpenMetrics: the text does not end with "# EOF"');
  }

  #read(bytes: Buffer): void {
    this.#lineNumber += 1;
    const line = bytes.toString();
    const problem = this.#problem(bytes, line);
    if (problem === null) return;
    throw badRequest(
      `not OpenMetrics: line ${this.#lineNumber}: ${problem}: ${JSON.stringify(shownText(line))}`,
    );
  }

  #problem(bytes: Buffer, line: string): string | null {
    if (bytes.length > lineBytesMax) return `longer than ${lineBytesMax} bytes`;
    if (!isUtf8(bytes)) return 'not UTF-8';
    if (this.#isEnded) return 'comes behind "# EOF"';
    if (line === '# EOF') {
      this.#isEnded = true;
      return this.#leave();
    }
    if (line === '') return 'empty';
    return line.startsWith('#') ? this.#metadata(line) : this.#sample(line);
  }

  #metadata(line: string): string | null {
    const [, kindText, nameText, text] = metadataPattern.exec(line) ?? [];
    const kind = metadataKinds.find((known) => known === kindText);
    if (kind === undefined) return 'expected HELP, TYPE or UNIT, the name of a metric and a text';
    const name = metricNameOf(nameText!);
    if (name === null) return 'expected the name of a metric';
    if (this.#family?.name !== name) {
      const problem = this.#leave();
      if (problem !== null) return problem;
      this.#family = new Family(name);
    }
    return this.#family.describe(kind, text!);
  }

  #sample(line: string): string | null {
    const sample = sampleOf(line);
    if (typeof sample === 'string') return sample;
    if (this.#family === null || !this.#family.takes(sample.name)) {
      const problem = this.#leave();
      if (problem !== null) return problem;
      this.#family = new Family(sample.name);
    }
    if (sample.exemplar !== null) this.exemplars.push(sample);
    return this.#family.add(sample);
  }

  /** Ends the family; answers what is wrong with it. */
  #leave(): string | null {
    const family = this.#family;
    if (family === null) return null;
    this.#family = null;
    for (const name of family.names) {
      if (this.#names.has(name)) return `before it, two metric families have the name ${name}`;
    }
    for (const name of family.names) this.#names.add(name);
    const { told } = family;
    if (told !== null) this.families.push(told);
    const problem = family.end();
    return problem === null ? null : `before it, metric family ${family.name}: ${problem}`;
  }
}
