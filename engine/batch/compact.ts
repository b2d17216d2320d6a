/** Writes a batch again with its columns in the shortest encoding, for logs and slow wires. */
import { encodeDelta, encodeSlackBytes, encodeWhole } from './columns.ts';
import { columnEncoding, columnId } from './format.ts';
import { readSections } from './read.ts';
import { type PlacedColumn, type PlacedSection, writeSections } from './write.ts';

/**
 * The same batch, columns encoded as short as this version knows; `readBatch` reads both alike.
 *
 * @param bytes a batch that `readBatch` accepts
 * @returns a fresh buffer
 * @throws {TsdbError} BAD_REQUEST when the sections of the batch are malformed
 */
export function compactBatch(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const { version, derivesVersions, sections } = readSections(bytes);
  const compacted: PlacedSection[] = [];
  for (const [kind, { rowCount, timeExponent, columns }] of sections) {
    compacted.push({
      kind,
      timeExponent,
      rowCount,
      columns: Array.from(columns, ([id, { encoding, bytes: column }]) =>
        compactColumn(id, encoding, column),
      ),
    });
  }
  return writeSections(version, compacted, derivesVersions);
}

function compactColumn(id: number, encoding: number, bytes: Uint8Array): PlacedColumn {
  const same = { id, encoding, bytes };
  if (encoding !== columnEncoding.raw || bytes.length === 0) return same;
  const target = new Uint8Array(bytes.length + encodeSlackBytes);
  let length = -1;
  let shorter: number = columnEncoding.delta;
  switch (id) {
    case columnId.slot:
    case columnId.generation:
    case columnId.idEnd:
    case columnId.tagsEnd:
    case columnId.typedEnd:
      length = encodeDelta(wordsOf(bytes), 1, target);
      break;
    case columnId.timestamp:
    case columnId.start:
      length = encodeDelta(wordsOf(bytes), 2, target);
      break;
    case columnId.value:
      shorter = columnEncoding.whole;
      length = encodeWhole(
        new Float64Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 3),
        target,
      );
      break;
    default:
      break;
  }
  return length < 0 ? same : { id, encoding: shorter, bytes: target.subarray(0, length) };
}

/** Columns of a batch start at multiples of eight. */
function wordsOf(bytes: Uint8Array): Uint32Array {
  return new Uint32Array(bytes.buffer, bytes.byteOffset, bytes.length >>> 2);
}
