/** A namespace that takes rows of the last eleven hours as warm writes, all of which are in a block or two. */
export const warmNamespaceOptions = {
  bootstrapEnabled: true,
  flushEnabled: true,
  writesToCommitLog: true,
  cleanupEnabled: true,
  snapshotEnabled: true,
  repairEnabled: false,
  retentionOptions: {
    retentionPeriodDuration: '96h',
    blockSizeDuration: '12h',
    bufferFutureDuration: '2h',
    bufferPastDuration: '11h',
    blockDataExpiry: true,
    blockDataExpiryAfterNotAccessPeriodDuration: '5m',
  },
  indexOptions: { enabled: true, blockSizeDuration: '12h' },
  aggregationOptions: { aggregations: [{ aggregated: false }] },
} as const;
