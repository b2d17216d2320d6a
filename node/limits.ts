/** Limits of everything in this room that could grow. */

/** Bytes of writes that wait for the commit log; more are refused with RESOURCE_EXHAUSTED. */
export const writeQueueBytesMax: number = 128 * 1024 * 1024;

/**
 * Bytes of writes that share one write and sync of the commit log, and one stretch of the main
 * loop.
 */
export const writeGroupBytesMax: number = 2 * 1024 * 1024;

/** A commit log segment is closed when it is longer. */
export const segmentBytesMax: number = 64 * 1024 * 1024;

/** Bytes of one page of a shard that is streamed to a peer. */
export const streamPageBytesTarget: number = 1024 * 1024;

/** Shards that one node streams from its peers at a time. */
export const streamShardsAtOnce = 4;

/** Longest ID of a series, in bytes. */
export const seriesIdBytesMax = 65_535;

/** Longest wait for a placement version that a request names and this node has not seen yet. */
export const placementWaitMillisMax = 2_000;

/** Largest body of a JSON request. */
export const jsonBodyBytesMax: number = 16 * 1024 * 1024;

/**
 * Bodies of all JSON requests of one node that are read or worked on; more are refused with
 * RESOURCE_EXHAUSTED.
 */
export const jsonBytesInFlightMax: number = 128 * 1024 * 1024;

/** Series that one JSON answer may hold when the request names no limit. */
export const jsonSeriesMax = 1_000_000;

/** Bytes of tags, IDs and chunks of one answer, so that a read cannot take the process down. */
export const fetchBytesMax: number = 1024 * 1024 * 1024;

/** Most rows of each list of an answer about cardinality. */
export const statisticsRowsMax = 4_000;

/** Longest CPU or heap profile of the debug server, in seconds. */
export const profileSecondsMax = 300;

/** Data files of filesets that are open at a time. */
export const openFilesMax = 512;

/** Data of filesets that are kept in memory, unless it is said otherwise. */
export const pageBytesMaxDefault: number = 64 * 1024 * 1024;

/**
 * Namespaces in the memory of a store, with those that are being released; the kernel has a table
 * of so many.
 */
export const namespaceOrdinalsMax = 1024;
