/** Bodies divided: what is written at once holds up nobody for long. */
import type {
  WriteDecoder,
  WriteDecoderHistograms,
  WriteDecoderRows,
} from '#engine/write_decoder/write_decoder.ts';

/** Rows at once: more is rare, and would hold up others. */
export const rowsAtOnce = 16_384;
/** Bytes of their tags: storage nodes name what is new of them in one go, and other writes wait for it. */
export const tagBytesAtOnce: number = 1 << 20;
/** Typed rows, and bytes of their values: a late one takes up to 20 µs. */
export const typedRowsAtOnce = 4096;
export const valueBytesAtOnce: number = 1 << 20;
/** A remote-write body of so few compressed bytes, with no more than the above, has nothing that would take long. */
const smallBodyBytes = 256 * 1024;

/** Histograms, or messages. */
type BodyTypedRows = Omit<WriteDecoderHistograms, 'bad' | 'badCount' | 'timeUnitNanos'> &
  Pick<WriteDecoderRows, 'timeUnitNanos'>;

/** Rows of one kind. */
export type BodyRows = WriteDecoderRows | BodyTypedRows;

/** Up to this row rows are written at once, from the first one on. @param bytesOf tags of a row */
export function partEnd(first: number, rowCount: number, bytesOf: (row: number) => number): number {
  return endWithin(first, Math.min(first + rowsAtOnce, rowCount), bytesOf, tagBytesAtOnce);
}

/** The same of typed rows, by their values. @param bytesOf value of a row */
export function typedPartEnd(
  first: number,
  rowCount: number,
  bytesOf: (row: number) => number,
): number {
  return endWithin(first, Math.min(first + typedRowsAtOnce, rowCount), bytesOf, valueBytesAtOnce);
}

function endWithin(
  first: number,
  most: number,
  bytesOf: (row: number) => number,
  bytesMax: number,
): number {
  let bytes = bytesOf(first);
  let past = first + 1;
  while (past < most && bytes < bytesMax) bytes += bytesOf(past++);
  return past;
}

/**
 * Samples and histograms of a remote-write body, by what is written at once. Those of a small body are the decoder's
 * columns themselves, which hold until it reads the next one.
 */
export function partsOfBody(
  bodyBytes: number,
  samples: WriteDecoderRows,
  histograms: WriteDecoderHistograms | null,
  decoder: WriteDecoder,
): Iterable<readonly BodyRows[]> {
  const all = histograms === null ? [samples] : [samples, histograms];
  const rowCount = all.reduce((sum, rows) => sum + rows.rowCount, 0);
  const valueBytes = histograms?.valueEnds[histograms.rowCount - 1] ?? 0;
  const isSmall =
    bodyBytes <= smallBodyBytes &&
    rowCount <= rowsAtOnce &&
    (histograms?.rowCount ?? 0) <= typedRowsAtOnce &&
    valueBytes <= valueBytesAtOnce;
  return isSmall ? [all] : copiedParts(samples, histograms, decoder);
}

/** All copies are made at once: other bodies are read between two parts. */
function copiedParts(
  samples: WriteDecoderRows,
  histograms: WriteDecoderHistograms | null,
  decoder: WriteDecoder,
): Iterable<readonly BodyRows[]> {
  const parts = [samplesIn(samples, decoder)];
  if (histograms !== null) parts.push(histogramsIn(histograms, decoder));
  return (function* () {
    for (const some of parts) for (const rows of some) yield [rows];
  })();
}

/**
 * Tags of each row that a storage node would name anew: those of the row before are known by then. Slots are asked
 * before the next body may give one to another series.
 */
function tagBytesOf(slots: Uint32Array, decoder: WriteDecoder): Uint32Array {
  const bytes = new Uint32Array(slots.length);
  for (let row = 0; row < slots.length; row++) {
    const slot = slots[row]!;
    if (row === 0 || slot !== slots[row - 1]) bytes[row] = decoder.tagBytes(slot);
  }
  return bytes;
}

function samplesIn(all: WriteDecoderRows, decoder: WriteDecoder): Iterable<BodyRows> {
  const { rowCount } = all;
  const slots = all.slots.slice(0, rowCount);
  const generations = all.generations.slice(0, rowCount);
  const timestamps = all.timestamps.slice(0, rowCount);
  const values = all.values.slice(0, rowCount);
  const startNanos = all.startNanos?.slice(0, rowCount) ?? null;
  const tagBytes = tagBytesOf(slots, decoder);
  return (function* () {
    for (let first = 0, past = 0; first < rowCount; first = past) {
      past = partEnd(first, rowCount, (row) => tagBytes[row]!);
      yield {
        ...all,
        rowCount: past - first,
        slots: slots.subarray(first, past),
        generations: generations.subarray(first, past),
        timestamps: timestamps.subarray(first, past),
        values: values.subarray(first, past),
        startNanos: startNanos?.subarray(first, past) ?? null,
      };
    }
  })();
}

function histogramsIn(all: WriteDecoderHistograms, decoder: WriteDecoder): Iterable<BodyRows> {
  const { rowCount } = all;
  const slots = all.slots.slice(0, rowCount);
  const generations = all.generations.slice(0, rowCount);
  const timestamps = all.timestamps.slice(0, rowCount);
  const startNanos = all.startNanos?.slice(0, rowCount) ?? null;
  const valueEnds = all.valueEnds.slice(0, rowCount);
  const valueBytes = all.valueBytes.slice(0, valueEnds[rowCount - 1] ?? 0);
  const tagBytes = tagBytesOf(slots, decoder);
  const startOf = (row: number): number => (row === 0 ? 0 : valueEnds[row - 1]!);
  const bytesOf = (row: number): number => valueEnds[row]! - startOf(row);
  return (function* () {
    for (let first = 0, past = 0; first < rowCount; first = past) {
      const end = typedPartEnd(first, rowCount, bytesOf);
      past = partEnd(first, end, (row) => tagBytes[row]!);
      const start = startOf(first);
      yield {
        ...all,
        rowCount: past - first,
        slots: slots.subarray(first, past),
        generations: generations.subarray(first, past),
        timestamps: timestamps.subarray(first, past),
        startNanos: startNanos?.subarray(first, past) ?? null,
        valueEnds: valueEnds.slice(first, past).map((valueEnd) => valueEnd - start),
        valueBytes: valueBytes.subarray(start, valueEnds[past - 1]),
      };
    }
  })();
}
