/** What is asked of the columns of a closed fileset, which are made again when they are damaged. */
import { SeriesColumnsCorrupt } from '../../persist/series_columns/format.ts';
import type { SeriesColumns } from '../../persist/series_columns/series_columns.ts';
import type { BlockFile, NamespaceFiles } from './namespace_files.ts';

/**
 * @param file pinned
 * @param visit called once more when it finds damage
 * @throws {FilesetCorrupt} when the index of the fileset is damaged, too
 */
export async function withColumns(
  files: NamespaceFiles,
  file: BlockFile,
  visit: (columns: SeriesColumns) => Promise<void>,
): Promise<void> {
  for (let isAgain = false; ; isAgain = true) {
    try {
      const columns = await files.columns(file);
      await visit(columns);
      // It may have read more of them.
      files.noteColumns(file, columns);
      return;
    } catch (error) {
      if (!(error instanceof SeriesColumnsCorrupt) || isAgain) throw error;
      await files.forgetColumns(file);
    }
  }
}
