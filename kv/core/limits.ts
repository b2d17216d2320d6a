/** Every limit of the embedded key-value store, with etcd's defaults where etcd has one. */
export const kvLimits = {
  /** Encoded bytes of one request (etcd's `--max-request-bytes`). */
  requestBytesMax: 1_572_864,
  /** Room for the frame around the largest request, so that we answer and not the transport. */
  requestFrameBytes: 524_288,
  /** What all requests hold that come or wait for their answer. */
  requestBytesInFlightMax: 67_108_864,
  /** Comparisons, or operations of a branch, nested ones counted with their parents. */
  transactionOperationsMax: 128,
  /** The same of a caller in this process; over the network as many come as nested ones. */
  localTransactionOperationsMax: 4_096,
  /** Comparisons and operations of all branches of a transaction and of those nested in it. */
  transactionPartsMax: 8_192,
  /** Bytes of keys and values that a transaction answers with. */
  transactionAnswerBytesMax: 16_777_216,
  /** Keys in the ranges of all comparisons and operations of a transaction. */
  transactionKeysMax: 50_000,
  /** Keys that one request deletes, and that a lease has. */
  deletedKeysMax: 50_000,
  /** Keys of a range that are looked at in one go. */
  rangeKeysAtOnce: 10_000,
  /**
   * Bytes of keys and values kept, history included. All of it lies in memory as well as on disk: in the heap, which may hold
   * as much again that is garbage.
   */
  storedBytesMax: 268_435_456,
  /** Beyond it, for callers in this process: placement, namespaces and announcements go on where others have filled the store. */
  reservedBytes: 16_777_216,
  /** What one key's change takes of memory beside its key and value: 175 bytes were measured. */
  changeOverheadBytes: 200,
  /** Revisions kept for watches and reads of the past. */
  historyRevisionsMax: 10_000,
  /** Compaction runs when this many more have come together, so that it is rare. */
  historyRevisionsSlack: 1_000,
  /** Bytes of history beyond which the older half of it goes early. */
  historyBytesMax: 67_108_864,
  /** Changes that are dropped after a compaction before others have their turn. */
  droppedChangesAtOnce: 2_000,
  leasesMax: 100_000,
  /** The longest time to live etcd takes, in seconds. */
  leaseTtlSecondsMax: 9_000_000_000,
  leaseTtlSecondsMin: 1,
  leaseExpiryIntervalMillis: 250,
  /** Keys that are deleted in one go since the time of leases is over, but for those of a single lease. */
  endedKeysAtOnce: 2_000,
  watchersMax: 10_000,
  watchersOfStreamMax: 1_000,
  watchStreamsMax: 1_000,
  /** A watch answer is closed when it has this many bytes; a revision is never split. */
  watchAnswerBytes: 1_048_576,
  /** Changes of the history that are looked at for a watch before others have their turn; a revision is never split. */
  watchChangesAtOnce: 10_000,
  watchProgressIntervalMillis: 600_000,
  /** Writes that wait for the disk; more are refused as 'too many requests'. */
  pendingRequestsMax: 10_000,
  pendingBytesMax: 67_108_864,
  /** How often a store whose disk failed is opened anew. */
  reopenIntervalMillis: 1_000,
  /** Rows handed to the storage thread at once, and from it when the store is loaded. */
  handedRowsMax: 2_000,
  handedBytesMax: 8_388_608,
  /** How long open calls may go on when the server stops. */
  stopGraceMillis: 1_000,
} as const;
