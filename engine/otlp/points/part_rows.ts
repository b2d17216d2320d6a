/** Rows of a part of a body, with the data points that they are of. */
import type { WriteDecoder } from '../../write_decoder/write_decoder.ts';
import { Exemplars } from './exemplars.ts';
import { metadataOf } from '../../write_decoder/told_metadata.ts';
import type { Family } from '../labels/families.ts';
import { staleHigh, staleLow } from './histogram_message.ts';
import { noPoint, type OtlpPart } from './types.ts';

/** A part is full after so much work; or bytes of labels that are new, or values of histograms. */
const unitsMax = 1_200_000;
const bytesMax: number = 1 << 20;
const histogramBytesMax: number = 4 << 20;
const problemsMax = 20;

const rowUnits = 60;
const histogramUnits = 600;
/** Of a series that is new. */
const seriesUnits = 3_000;

const double = new Float64Array(1);
const doubleWords = new Uint32Array(double.buffer);

export class PartRows {
  readonly decoder: WriteDecoder;
  readonly exemplars: Exemplars = new Exemplars();
  #pointOfSample = new Uint32Array(4096);
  #samples = 0;
  #pointOfHistogram = new Uint32Array(64);
  #histograms = 0;
  /** Of the body: that which is read, or comes next. */
  #point = 0;
  #firstPoint = 0;
  #refusedCount = 0;
  #problems: string[] = [];
  #families: Family[] = [];
  #part: object = {};
  #units = 0;
  #newBytes = 0;
  #histogramBytes = 0;

  constructor(decoder: WriteDecoder) {
    this.decoder = decoder;
  }

  begin(): void {
    this.decoder.beginRows();
    this.exemplars.clear();
    this.#samples = 0;
    this.#histograms = 0;
    this.#firstPoint = this.#point;
    this.#refusedCount = 0;
    this.#problems = [];
    this.#families = [];
    this.#part = {};
    this.#units = 0;
    this.#newBytes = 0;
    this.#histogramBytes = 0;
  }

  /** The body is read from its begin again. */
  restart(): void {
    this.#point = 0;
  }

  get isFull(): boolean {
    return (
      this.#units > unitsMax ||
      this.#newBytes > bytesMax ||
      this.#histogramBytes > histogramBytesMax
    );
  }

  /** The point is read. */
  endPoint(): void {
    this.#point += 1;
    this.#units += rowUnits;
  }

  /** The point that is read is none of the rows. */
  refuse(metricName: string, problem: string): void {
    this.#refusedCount += 1;
    if (this.#problems.length < problemsMax) {
      this.#problems.push(`metric ${metricName}: ${problem}`);
    }
  }

  noteFamily(family: Family): void {
    if (family.seenIn === this.#part) return;
    family.seenIn = this.#part;
    this.#families.push(family);
  }

  /** Labels of a series were made. */
  noteNew(bytes: number): void {
    this.#units += seriesUnits;
    this.#newBytes += bytes;
  }

  /** So many are known from now on. */
  noteBytes(bytes: number): void {
    this.#newBytes += bytes;
  }

  /** Points of numbers that it has room for. */
  get pointsLeft(): number {
    return Math.ceil((unitsMax + 1 - this.#units) / (2 * rowUnits));
  }

  /**
   * Takes points of numbers, up to the first one whose series is not in use any more.
   * @returns how many
   */
  addNumbers(packed: Uint8Array): number {
    const count = this.decoder.addPackedSamples(packed);
    while (this.#samples + count > this.#pointOfSample.length) {
      this.#pointOfSample = twice(this.#pointOfSample);
    }
    for (let i = 0; i < count; i++) this.#pointOfSample[this.#samples++] = this.#point++;
    this.#units += 2 * rowUnits * count;
    return count;
  }

  /** @param startMillis 0 for none */
  addBits(slot: number, millis: number, low: number, high: number, startMillis: number): void {
    this.#addSample(this.#point);
    this.decoder.addSample(slot, millis, low, high, startMillis);
  }

  add(slot: number, millis: number, value: number, startMillis: number): void {
    double[0] = value;
    this.addBits(slot, millis, doubleWords[0]!, doubleWords[1]!, startMillis);
  }

  addStale(slot: number, millis: number, startMillis: number): void {
    this.addBits(slot, millis, staleLow, staleHigh, startMillis);
  }

  /** Of a resource, not of a point. */
  addInfo(slot: number, millis: number): void {
    double[0] = 1;
    this.#addSample(noPoint);
    this.decoder.addSample(slot, millis, doubleWords[0]!, doubleWords[1]!, 0);
  }

  #addSample(point: number): void {
    const row = this.#samples++;
    if (row === this.#pointOfSample.length) this.#pointOfSample = twice(this.#pointOfSample);
    this.#pointOfSample[row] = point;
    this.#units += rowUnits;
  }

  /** @returns why it is none that is stored, or null */
  addHistogram(slot: number, message: Uint8Array): string | null {
    const problem = this.decoder.addHistogram(slot, message);
    this.#units += histogramUnits + 2 * message.length;
    if (problem !== null) return problem;
    const row = this.#histograms++;
    if (row === this.#pointOfHistogram.length)
      this.#pointOfHistogram = twice(this.#pointOfHistogram);
    this.#pointOfHistogram[row] = this.#point;
    this.#histogramBytes += message.length;
    return null;
  }

  end(): OtlpPart {
    const rows = this.decoder.endRows();
    return {
      rows: { ...rows, exemplars: this.exemplars.rows, metadata: metadataOf(this.#families) },
      pointOfSample: this.#pointOfSample.slice(0, this.#samples),
      pointOfHistogram: this.#pointOfHistogram.slice(0, this.#histograms),
      pointCount: this.#point - this.#firstPoint,
      refusedCount: this.#refusedCount,
      problems: this.#problems,
      units: this.#units,
    };
  }
}

function twice(words: Uint32Array<ArrayBuffer>): Uint32Array<ArrayBuffer> {
  const larger = new Uint32Array(2 * words.length);
  larger.set(words);
  return larger;
}
