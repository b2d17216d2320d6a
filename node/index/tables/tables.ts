/** The parts that together are an index, for those who walk all of them. */
import type { IdentityTable } from './identity_table.ts';
import type { LiveBlocks } from './live_blocks.ts';
import type { PostingsStore } from './postings.ts';
import type { SeriesTable } from './series_table.ts';
import type { TermDictionary } from './term_dictionary.ts';

export interface IndexTables {
  readonly dictionary: TermDictionary;
  readonly series: SeriesTable;
  /** By term. */
  readonly termPostings: PostingsStore;
  /** By field. */
  readonly fieldPostings: PostingsStore;
  readonly identities: IdentityTable;
  readonly live: LiveBlocks;
}
