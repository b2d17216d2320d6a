/** What the bytes of a batch are (docs/formats/batch.md). */
import {
  columnEntryBytes,
  columnId,
  headerBytes,
  sectionEntryBytes,
} from '#engine/batch/format.ts';

const names: Readonly<Record<number, string>> = {
  [columnId.slot]: 'slots',
  [columnId.generation]: 'generations',
  [columnId.timestamp]: 'timestamps',
  [columnId.value]: 'values',
  [columnId.start]: 'start times',
  [columnId.typedEnd]: 'typed values',
  [columnId.typedBytes]: 'typed values',
  [columnId.idScheme]: 'dictionary',
  [columnId.idEnd]: 'dictionary',
  [columnId.idBytes]: 'dictionary',
  [columnId.tagsEnd]: 'dictionary',
  [columnId.tagsBytes]: 'dictionary',
};

/**
 * Bytes by column, and of what is around them; together as long as the batch.
 * @param batch that `readTypedBatch` has read
 */
export function batchColumns(
  batch: Uint8Array,
): readonly (readonly [column: string, bytes: number])[] {
  const view = new DataView(batch.buffer, batch.byteOffset, batch.length);
  const columns: [string, number][] = [];
  let left = batch.length;
  for (let section = 0; section < view.getUint16(6, true); section += 1) {
    const entry = headerBytes + sectionEntryBytes * section;
    const directory = view.getUint32(entry + 8, true);
    for (let column = 0; column < view.getUint16(entry + 2, true); column += 1) {
      const at = directory + columnEntryBytes * column;
      const length = view.getUint32(at + 8, true);
      columns.push([names[batch[at]!] ?? `column ${batch[at]}`, length]);
      left -= length;
    }
  }
  columns.push(['headers and padding', left]);
  return columns;
}
