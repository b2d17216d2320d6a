/**
 * Levels of the formats of files, logs and messages. A process reads all levels up to its newest
 * one, and writes a format only when the level that it came with is finished for the cluster: every
 * process reads it then, and nobody goes back to a release that does not. Until then the older
 * format is written, so that a rolling upgrade can be rolled back.
 *
 *     level  release  what may be written from then on
 *     1      0.1.0    what that release writes
 *     2      0.2.0    chunks with the version of each row (docs/formats/chunk.md, kind 4 and form 5 of kind 3),
 *                     batches that derive versions (docs/formats/batch.md)
 *     3      0.3.0    typed rows and start times: chunks of kind 5 and 6 (docs/formats/typed.md), section 3 and
 *                     column 6 of a batch; placements whose version is not that of their key
 *     4      0.3.0    windows of aggregated namespaces, which may be READY; promises of since when a namespace of
 *                     samples has every row (cluster/namespaces/samples.ts); series whose ID is a path (lib/series_id/scheme.ts)
 *
 * A format that comes with a level names it by a constant of its own beside its encoder, and its
 * writer asks `level() >= thatConstant`.
 */

/** Of release 0.1.0, and of whoever says nothing. */
export const formatLevelFirst = 1;

/** The highest one that this release reads. */
export const formatLevelNewest = 4;

/** Chunks that keep the version of each row, and batches that derive the versions of their rows. */
export const rowVersionsFormatLevel = 2;

/** Typed rows, and start times of any rows. */
export const typedRowsFormatLevel = 3;

/** Placements in the key-value store whose version has an offset (cluster/placement/stored.ts). */
export const placementOffsetFormatLevel = 3;

/** Windows, and promises of namespaces: whoever writes says which namespaces it knows. */
export const resolutionsFormatLevel = 4;

/** Series whose ID is made of the nodes of a path. */
export const pathIdsFormatLevel = 4;

/** What a writer asks. */
export interface FormatLevels {
  /** Formats up to this level may be written now; it never falls. */
  level(): number;
}

/** Everything may be written: for what nobody else reads, and for tests. */
export const newestFormats: FormatLevels = { level: () => formatLevelNewest };
