/** Limits of everything in this room that could grow. */

/** Shards of a placement; a power of two is usual, 4096 is enough for some hundred nodes. */
export const shardsMax = 65_536;

export const instancesMax = 4_096;

/** Replicas of a shard. A shard has at most twice as many owners while it moves. */
export const replicationFactorMax = 7;

/** Numbers of shard sets of aggregators, which do not come again: far below what is stored of one. */
export const shardSetIdMax = 1_000_000_000;

/** Past placements that stay readable by their version. */
export const placementHistoryMax = 100;

export const namespacesMax = 1_000;

/** Schemas that stand in a namespace; of those that a reset has ended so many are kept. */
export const schemasMax = 1_000;

/** Bytes of the files of one schema, which are parsed in one go. */
export const schemaFileBytesMax: number = 128 << 10;

/** Bytes of all schemas of all namespaces, which are one value: etcd takes requests of 1.5 MiB. */
export const schemaBytesMax: number = 512 << 10;

/** Sets of rules of aggregation. */
export const ruleSetsMax = 100;

/** Bytes of one set of rules with their history as JSON, which is parsed in one go. */
export const ruleSetBytesMax: number = 16 << 20;

/** Bytes of one set of rules as it is stored: etcd takes requests of 1.5 MiB. */
export const storedRuleSetBytesMax: number = 1 << 20;

/** Names of which it is noted that their namespace was deleted. */
export const endedNamespacesMax = 1_000;

/**
 * Versions by which an approval raises a placement one after the other, so that none comes again, as
 * long as nobody may write an offset instead.
 */
export const placementRaisesMax = 10_000;

/** Lineages of the key-value store that a process may have slept through (kv/lineage.ts). */
export const lineagesMax = 64;

/** Attempts of a compare-and-set that lost against another writer. */
export const compareAndSetAttemptsMax = 16;

/** Longest instance ID, isolation group, host name, endpoint and namespace name, in characters. */
export const nameLengthMax = 253;

/** Rows of writes that a session holds while they wait for their quorum. */
export const outstandingRowsMax = 4_000_000;

/** Rows of columns that a session keeps for its next writes; 24 bytes each. */
export const copiedRowsKeptMax = 2_097_152;

/**
 * Rows on their way to one instance; more fail for this replica at once, so a hung one holds no
 * memory.
 */
export const outstandingRowsPerInstanceMax = 2_000_000;

/** Bytes of batches on their way to one instance. */
export const outstandingBytesPerInstanceMax: number = 256 << 20;

/** Attempts of one write after the first: failures for a passing reason. */
export const writeRetriesMax = 2;

/** Rows of a session's retries for each row that it sends for the first time. */
export const retryShareMax = 0.1;

/** Rows that a session may send again when it had nothing to send again for long. */
export const retryRowsSavedMax = 200_000;

/** Memory of the references that a session keeps, of all instances and namespaces together. */
export const referenceBytesMax: number = 512 << 20;

/** References that were not used for so long make room for others. */
export const referenceIdleMillis = 60_000;

/** Attempts of one write that follow a 'stale placement' or 'shard not owned'. */
export const staleRetriesMax = 4;

/** Attempts of one read after the first. */
export const fetchRetriesMax = 3;

/** Bytes of one page of a streamed answer between nodes. */
export const wirePageBytesMax: number = 4 << 20;

/**
 * Bytes of tags, IDs and chunks that one read may bring together when the caller names no limit.
 */
export const fetchBytesMaxDefault: number = 1 << 30;

/**
 * Deletions of series that stand at a time: each is compared with what comes back from files and
 * late writers.
 */
export const deletionsMax = 2_000;

/** Characters of one deletion's query as JSON. */
export const deletionQueryCharactersMax = 16_384;

/**
 * Bytes of the entries that one deletion writes, one for each of its namespaces: etcd takes requests of
 * 1.5 MiB.
 */
export const deletionBytesMax: number = 1 << 20;

/** How long a deletion waits for the instances that have not confirmed it. */
export const deletionConfirmMillisMax = 5_000;

/** How long a request to clean waits for files to be rewritten. */
export const deletionCleanMillisMax = 60_000;
