/**
 * Of a body of remote write the series of which a share is taken (`shadow.percent`): by a hash of their labels, as M3 takes
 * them, so that they are the same ones from body to body and from coordinator to coordinator.
 */
import { rawBytesMax, type RemoteWriteVersion } from '#engine/write_decoder/core.ts';
import { decodeSnappyInTurns, encodeSnappyParts } from '#engine/write_decoder/snappy.ts';
import { Fields, Malformed, type Range, wireBytes } from '#engine/write_decoder/wire_fields.ts';
import { badRequest } from '#lib/errors.ts';
import { xxhash64 } from '#lib/hashing/xxhash64.ts';
import type { Work } from '#lib/turns/turns.ts';

/** Shares are multiples of one in so many, as in M3. */
const shares = 10_000;
/** A series with more, or with longer ones together, is refused here, and not looked at further. */
const labelsMax = 1_024;
const labelBytesMax = 65_535;
/** Copied and compressed at once. */
const partBytes = 64 << 10;
/** About what it takes to compress a byte, to hash one, and to look at a field, in units of work (lib/turns/turns.ts). */
const byteUnits = 4;
const hashedByteUnits = 20;
const fieldUnits = 100;

const timeSeriesField = { 1: 1, 2: 5 } as const;
const symbolsField = 4;
const equals = 0x3d;
const comma = 0x2c;

interface Label {
  readonly name: Uint8Array;
  readonly value: Uint8Array;
}

/**
 * @param share 0 to 1
 * @returns a body of its own, without metadata in version 1; null when none of its series is taken
 * @throws {TsdbError} BAD_REQUEST when it is no body; the reason of the work's signal
 */
export async function shadowBody(
  body: Uint8Array,
  version: RemoteWriteVersion,
  share: number,
  work: Work,
): Promise<Uint8Array | null> {
  const raw = await decodeSnappyInTurns(body, rawBytesMax, work);
  const takenMax = BigInt(Math.trunc(share * shares));
  try {
    const symbols = version === 2 ? await symbolsOf(raw, work) : [];
    const taken = new Ranges();
    let seriesTaken = 0;
    const fields = new Fields(raw, 0, raw.length);
    for (let start = 0; fields.next(); start = fields.at) {
      if (work.spend(fieldUnits)) await work.pause();
      if (fields.number !== timeSeriesField[version]) {
        fields.skip();
        // Series of version 2 name their labels by their places in the table.
        if (version === 2 && fields.number === symbolsField) taken.add(start, fields.at);
        continue;
      }
      fields.expect(wireBytes);
      const series = fields.range();
      const labels =
        version === 1
          ? await labelsOf(raw, series, work)
          : await referredLabels(raw, series, symbols, work);
      if (labels === null) continue;
      const text = hashedText(labels);
      if (work.spend(fieldUnits * labels.length + hashedByteUnits * text.length)) {
        await work.pause();
      }
      if (xxhash64(text) % BigInt(shares) >= takenMax) continue;
      seriesTaken++;
      taken.add(start, fields.at);
    }
    return seriesTaken === 0 ? null : await compressed(raw, taken.all, work);
  } catch (error) {
    if (error instanceof Malformed) throw badRequest(`no body of remote write: ${error.message}`);
    throw error;
  }
}

/** Stretches of a body, those that follow each other joined. */
class Ranges {
  readonly all: [start: number, end: number][] = [];

  add(start: number, end: number): void {
    const last = this.all.at(-1);
    if (last !== undefined && last[1] === start) last[1] = end;
    else this.all.push([start, end]);
  }
}

async function symbolsOf(raw: Uint8Array, work: Work): Promise<Uint8Array[]> {
  const symbols: Uint8Array[] = [];
  const fields = new Fields(raw, 0, raw.length);
  while (fields.next()) {
    if (fields.number === symbolsField) symbols.push(bytesIn(raw, fields));
    else fields.skip();
    if (work.spend(fieldUnits)) await work.pause();
  }
  return symbols;
}

function bytesIn(raw: Uint8Array, fields: Fields): Uint8Array {
  fields.expect(wireBytes);
  return raw.subarray(...fields.range());
}

/** Labels of a series as long as they are not too many or too long. */
class Labels {
  readonly all: Label[] = [];
  #bytes = 0;

  /** @returns false when it is too much */
  add(name: Uint8Array, value: Uint8Array): boolean {
    this.#bytes += name.length + value.length;
    this.all.push({ name, value });
    return this.all.length <= labelsMax && this.#bytes <= labelBytesMax;
  }
}

/** Null for a series of which nothing is taken anyway. */
async function labelsOf(
  raw: Uint8Array,
  series: Range,
  work: Work,
): Promise<readonly Label[] | null> {
  const labels = new Labels();
  const fields = new Fields(raw, ...series);
  while (fields.next()) {
    // Samples are fields, too, and may be a million.
    if (work.spend(fieldUnits)) await work.pause();
    if (fields.number !== 1) {
      fields.skip();
      continue;
    }
    fields.expect(wireBytes);
    const { name, value } = await labelOf(raw, fields.range(), work);
    if (!labels.add(name, value)) return null;
  }
  return labels.all;
}

const none: Uint8Array = new Uint8Array(0);

async function labelOf(raw: Uint8Array, label: Range, work: Work): Promise<Label> {
  let name = none;
  let value = none;
  const fields = new Fields(raw, ...label);
  while (fields.next()) {
    if (work.spend(fieldUnits)) await work.pause();
    if (fields.number === 1) name = bytesIn(raw, fields);
    else if (fields.number === 2) value = bytesIn(raw, fields);
    else fields.skip();
  }
  return { name, value };
}

/** Of version 2: places of names and values in the table, in turns. Null as above, and for a place that is not in the table. */
async function referredLabels(
  raw: Uint8Array,
  series: Range,
  symbols: readonly Uint8Array[],
  work: Work,
): Promise<readonly Label[] | null> {
  const labels = new Labels();
  let name: Uint8Array | null = null;
  for (const reference of referencesOf(raw, series)) {
    if (work.spend(fieldUnits)) await work.pause();
    if (reference === null) continue;
    const text = symbols[Number(reference)];
    if (text === undefined) return null;
    if (name === null) name = text;
    else {
      if (!labels.add(name, text)) return null;
      name = null;
    }
  }
  return name === null ? labels.all : null;
}

/** Null for each field that is none. */
function* referencesOf(raw: Uint8Array, series: Range): Generator<bigint | null> {
  const fields = new Fields(raw, ...series);
  while (fields.next()) {
    if (fields.number !== 1) {
      fields.skip();
      yield null;
    } else if (fields.wireType === wireBytes) {
      const packed = new Fields(raw, ...fields.range());
      while (!packed.isAtEnd) yield packed.varint();
    } else yield fields.varint();
  }
}

/** `name=value,name=value` by the order of the names. */
function hashedText(labels: readonly Label[]): Uint8Array {
  const isSorted = labels.every(
    ({ name }, i) => i === 0 || Buffer.compare(labels[i - 1]!.name, name) <= 0,
  );
  const sorted = isSorted ? labels : labels.toSorted((a, b) => Buffer.compare(a.name, b.name));
  const length = sorted.reduce((sum, { name, value }) => sum + name.length + value.length + 2, -1);
  const text = new Uint8Array(Math.max(0, length));
  let at = 0;
  for (const { name, value } of sorted) {
    if (at > 0) text[at++] = comma;
    text.set(name, at);
    at += name.length;
    text[at++] = equals;
    text.set(value, at);
    at += value.length;
  }
  return text;
}

async function compressed(
  raw: Uint8Array,
  ranges: readonly Range[],
  work: Work,
): Promise<Uint8Array> {
  const all = new Uint8Array(ranges.reduce((sum, [start, end]) => sum + end - start, 0));
  let at = 0;
  for (const [start, end] of ranges) {
    all.set(raw.subarray(start, end), at);
    at += end - start;
    if (work.spend(fieldUnits + ((end - start) >>> 3))) await work.pause();
  }
  const parts: Uint8Array[] = [];
  for (at = 0; at < all.length; at += partBytes) parts.push(all.subarray(at, at + partBytes));
  const pieces: Uint8Array[] = [];
  for (const piece of encodeSnappyParts(parts)) {
    pieces.push(piece);
    if (work.spend(byteUnits * partBytes)) await work.pause();
  }
  return Buffer.concat(pieces);
}
