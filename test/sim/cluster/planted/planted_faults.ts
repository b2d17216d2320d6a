/**
 * Flaws that are put into copies of the product, to see whether the simulator sees them. Each is
 * one that somebody could write, and that costs acknowledged rows or brings wrong ones back.
 */
export interface PlantedFault {
  /** Words with hyphens between them. */
  readonly name: string;
  /** From the project's root. */
  readonly file: string;
  /** Stands once in the file. */
  readonly right: string;
  readonly wrong: string;
  /** What has to go with it in the same file, since either alone does. */
  readonly beside?: readonly { readonly right: string; readonly wrong: string }[];
  /** Runs of test/sim/resolutions look for it, without stories. */
  readonly isOfResolutions?: true;
}

export const plantedFaults: readonly PlantedFault[] = [
  {
    name: 'windows-by-the-rules-of-their-end',
    file: 'cluster/aggregation_rules/sets/kept_windows.ts',
    right: '  return (windows + 1n) * resolutionNanos;',
    wrong: '  return windows * resolutionNanos;',
    isOfResolutions: true,
  },
  {
    name: 'values-of-windows-by-no-rule',
    file: 'cluster/aggregation_rules/match.ts',
    right: '    const type = namesPolicy(rule, policy) ? windowTypeOf(rule) : null;',
    wrong: '    const type = namesPolicy(rule, policy) ? null : windowTypeOf(rule);',
    isOfResolutions: true,
  },
  {
    name: 'values-of-windows-by-the-order-of-a-file',
    file: 'cluster/aggregation_rules/match.ts',
    right: '(plain.length > 1 ? inOrderOfNames(plain) : plain)',
    wrong: 'plain',
    isOfResolutions: true,
  },
  {
    name: 'values-of-windows-by-rules-of-one-time',
    file: 'cluster/aggregation_rules/sets/window_types.ts',
    right: '    if (before !== undefined && areSame(before.deciding, deciding)) continue;',
    wrong: '    if (before !== undefined) continue;',
    isOfResolutions: true,
  },
  {
    name: 'rollups-without-dropped-rows',
    file: 'cluster/rollups/parts/rows.ts',
    right: '    if (dropped !== undefined && isReady(dropped)) {',
    wrong: '    if (dropped !== undefined && !isReady(dropped)) {',
    isOfResolutions: true,
  },
  {
    name: 'rollups-that-are-final-before-late-rows',
    file: 'cluster/rollups/policy_rollups.ts',
    right: '    const settleNanos = greater(moment.bufferPastNanos, aheadNanos) + lateness;',
    wrong: '    const settleNanos = aheadNanos + lateness;',
    isOfResolutions: true,
  },
  {
    name: 'rollups-that-begin-anew-with-each-leader',
    file: 'cluster/rollups/policy_rollups.ts',
    right: '    } else if (stored !== null) endNanos = stored;',
    wrong: '    }',
    isOfResolutions: true,
  },
  {
    name: 'sums-that-begin-anew-with-each-leader',
    file: 'cluster/rollups/policy_rollups.ts',
    right: '    reduce.beginSums(await this.#sumsAt(endNanos, moment, signal));',
    wrong: '    reduce.beginSums(() => 0);',
    isOfResolutions: true,
  },
  {
    name: 'windows-without-dropped-rows',
    file: 'node/storage/aggregation/aggregator.ts',
    right: 'hasRowsOf(dropped, slice.shard, range) ? [dropped] : [];',
    wrong: 'hasRowsOf(dropped, slice.shard, range) ? [] : [];',
    isOfResolutions: true,
  },
  {
    name: 'series-that-are-looked-for-in-samples-alone',
    file: 'coordinator/select/fanout.ts',
    right: '      sources.push(new ThroughoutSource(this.#setup, samples, timeline, recentRows));',
    wrong: '      sources.push(new ThroughoutSource(this.#setup, samples, null, recentRows));',
    isOfResolutions: true,
  },
  {
    name: 'rows-by-the-rules-of-now',
    file: 'coordinator/ingest/writing/dropped_rows.ts',
    right: '          : earlier.of(slot, timestamps[row]! * unit);',
    wrong: '          : this.#placeNow(era, slot, generations[row]!, series);',
    isOfResolutions: true,
  },
  {
    name: 'writers-that-know-fewer-namespaces',
    file: 'node/storage/namespace/sample_namespaces.ts',
    right: 'revision < this.#since',
    wrong: 'revision < 0 * this.#since',
  },
  {
    name: 'windows-that-are-made-once',
    file: 'node/storage/aggregation/made_of.ts',
    right:
      '  if (known.includes(chosen) ? !same.includes(chosen) : same.length === 0) return null;',
    wrong: '  if (same.length < 0) return null;',
  },
  {
    name: 'windows-that-are-noted-after-their-fileset-is-lost',
    file: 'node/storage/aggregation/aggregator.ts',
    right:
      '    return hasWindows && namespace.files.get(shard, namespace.blockStartOf(startNanos)) === null;',
    wrong: '    return !hasWindows && namespace.files.get(shard, startNanos) === null;',
    beside: [
      {
        right: '      if (!blocks.has(namespace.blockStartOf(note.startNanos))) continue;',
        wrong: '      if (note !== null) continue;',
      },
    ],
  },
  {
    name: 'a-log-that-is-not-synced',
    file: 'node/persist/commitlog/commitlog.ts',
    right: '    await segment.file.sync();\n    segment.syncedPosition = end;',
    wrong: '    segment.syncedPosition = end;',
  },
  {
    name: 'damage-of-the-log-taken-for-torn',
    file: 'node/bootstrap/log_loss.ts',
    right: 'const hit = problems.find(({ start }) => start < syncedEnd);',
    wrong: 'const hit = problems.find(({ start }) => start < 0 * syncedEnd);',
  },
  {
    name: 'doubts-that-a-restart-forgets',
    file: 'node/doubt/ledger.ts',
    right: '    await writeLedger(this.#env.disk, this.#dataFolder, ledger);\n',
    wrong: '    void [writeLedger, ledger];\n',
  },
  {
    name: 'memory-forgets-before-the-fileset-is-there',
    file: 'node/storage/flush/volume.ts',
    right: '    await files.keepDamage(shard, extent);\n    const digest',
    wrong: '    await files.keepDamage(shard, extent);\n    options.onSafe();\n    const digest',
  },
  {
    name: 'blocks-that-a-rolled-back-folder-took-are-held',
    file: 'node/bootstrap/taken_blocks.ts',
    right: '    takenAs.boot >= sinceBoot &&\n',
    wrong: '    takenAs.boot >= 0 * sinceBoot &&\n',
  },
  {
    name: 'segments-go-before-the-snapshot-counts',
    file: 'node/storage/flush/snapshot.ts',
    right:
      '    let series = 0;\n    let entries = 0;\n    let chunkBytes = 0;\n    for (const namespace of',
    wrong:
      '    await sequencer.exclusive(() => commitlog.deleteSegmentsBefore(segment));\n    let series = 0;\n    let entries = 0;\n    let chunkBytes = 0;\n    for (const namespace of',
  },
  {
    name: 'a-pair-counts-as-two',
    file: 'cluster/topology/ownership.ts',
    right: 'replicas.push({ mask: (1 << bit) | (1 << source) });',
    wrong: 'replicas.push({ mask: 1 << bit }, { mask: 1 << source });',
  },
  {
    name: 'initializing-owners-are-read',
    file: 'node/storage/read/read.ts',
    right: 'if (owned === undefined || !isRead(owned)) return false;',
    wrong: 'if (owned === undefined) return false;\n    if (this.#starts !== null) return true;',
  },
  {
    name: 'available-before-it-is-fetched',
    file: 'node/bootstrap/shard_jobs.ts',
    right: '    const signal = this.#signalOf(job);\n    const wanted',
    wrong:
      '    const signal = this.#signalOf(job);\n    job.namespace.readyShards.add(job.shard);\n    this.#options.onReady();\n    const wanted',
  },
  {
    name: 'one-donor-is-enough',
    file: 'node/bootstrap/donors.ts',
    right: 'return planOf(candidates, Math.min(candidates.length, covering));',
    wrong: 'return planOf(candidates, Math.min(candidates.length, 1));',
  },
  {
    name: 'a-donor-that-takes-writers-of-before',
    file: 'node/storage/namespace/shards.ts',
    right: 'return placementVersion < (this.#writerVersionMin.get(shard) ?? known);',
    wrong: 'return placementVersion < 0 * (this.#writerVersionMin.get(shard) ?? known);',
  },
  {
    name: 'readiness-of-an-earlier-assignment',
    file: 'cluster/placement/assignments.ts',
    right: 'return one.sourceId === other.sourceId && one.assignment === other.assignment;',
    wrong: 'return one.sourceId === other.sourceId;',
  },
  {
    name: 'marks-without-all-namespaces',
    file: 'node/own_shards.ts',
    right: "      { key: namespaces, target: 'modRevision', equals: namespacesRevision() },\n",
    wrong: '',
    beside: [
      {
        right: '    const { placementVersion } = await topology.refresh(signal);\n',
        wrong: '    const { placementVersion } = topology.view;\n',
      },
    ],
  },
  {
    name: 'a-rolled-back-folder-goes-on',
    file: 'node/identity/announcement.ts',
    right: "  return isOurs ? 'continued' : 'rolled back';",
    wrong: "  return isOurs ? 'continued' : 'continued';",
  },
  {
    name: 'a-nonce-that-is-forgotten',
    file: 'node/identity/announcement.ts',
    right: '    if (seen.nonce === this.#nonce) {\n      this.#sinceBoot',
    wrong: '    if (seen.nonce === this.#nonce && seen.nonce === "") {\n      this.#sinceBoot',
  },
  {
    name: 'references-outlive-a-boot',
    file: 'node/storage/database.ts',
    right: 'referenceEpoch: `${referenceEpochOf(identity)}.${random.bytes(6).toHex()}`,',
    wrong: "referenceEpoch: `${referenceEpochOf(identity).split('.')[0]}`,",
  },
  {
    name: 'versions-of-the-node-that-takes-a-row',
    file: 'node/storage/write/write.ts',
    right: 'part.append(context.store, version, ',
    wrong: 'part.append(context.store, Number(context.time.nowNanos() / 15_625n), ',
  },
  {
    name: 'a-watch-that-drops-events',
    file: 'cluster/topology/topology.ts',
    right: '    for (const event of events) {',
    wrong: '    for (const event of events.slice(Number(this.#current.placementVersion > 3))) {',
  },
  {
    name: 'retention-by-any-clock',
    file: 'node/clock/retention_clock.ts',
    right: '|| this.#holdMillis === 0) {',
    wrong: '|| this.#holdMillis >= 0) {',
    beside: [
      {
        right: '    const nowNanos = this.#time.earliestNanos();',
        wrong: '    const nowNanos = this.#clock.nowNanos();',
      },
    ],
  },
  {
    name: 'a-namespace-known-by-its-name',
    file: 'node/storage/database.ts',
    right: '    await this.admission.namespaceNumber(request, numberNow, signal);\n',
    wrong: '    void numberNow;\n',
  },
  {
    name: 'digests-without-rows-of-memory',
    file: 'node/storage/comparison/block_digests.ts',
    right: 'const members = this.#memoryRows.of(namespace, shard, blockStartNanos);',
    wrong: 'const members: readonly MemoryMember[] = [];',
  },
  {
    name: 'rows-compared-under-other-deletions',
    file: 'node/storage/comparison/comparisons.ts',
    right: 'if (isApplying || deletions.appliedSequence !== deletionSequence) {',
    wrong: 'if (isApplying && deletions.appliedSequence !== deletionSequence) {',
  },
  {
    name: 'a-start-without-the-store-that-counts',
    file: 'node/runtime.ts',
    right: 'if (isAlone) this.database.shards.counts = false;',
    wrong: 'if (isAlone) this.database.shards.counts = true;',
  },
  {
    name: 'a-witness-of-older-copies',
    file: 'node/identity/witness.ts',
    right: '(heard.mark === asker.mark || heard.mark === asker.markBefore)',
    wrong: 'heard.mark !== asker.instanceId',
  },
  {
    name: 'a-taken-process-that-keeps-its-rows-to-itself',
    file: 'node/standing.ts',
    right: 'if (bytes !== this.#markedBytes) await this.#announcement.noteRows(signal);',
    wrong: 'if (bytes < 0) await this.#announcement.noteRows(signal);',
  },
  {
    name: 'a-placement-by-hand-that-is-believed',
    file: 'node/identity/store_memory.ts',
    right: '    if (had === null) return;\n',
    wrong: '    if (had === null || !isOfOther) return;\n',
  },
  {
    name: 'what-is-taken-away-counts-as-handed-over',
    file: 'node/storage/namespace/shards.ts',
    right: 'before.get(id)!.isRetired && this.#hasTaken(id)',
    wrong: 'before.get(id)!.isRetired || !this.#hasTaken(id)',
  },
];
