/**
 * A rehearsal of the first writes. A new process interprets its code until V8 has compiled what is
 * hot, and the first requests after a start are often the largest: every series in them is new to
 * the node. So a node that has just started takes some series of its own into a scratch index and a
 * scratch segment of the log, a few at a time, and forgets them.
 *
 * It brings the slowest request of a load that makes a million series after the start from 229 to
 * 159 ms (medians of three runs in turns), and costs 0.09 CPU seconds a start.
 */
import { assert } from '#lib/assert.ts';
import type { Env } from '#lib/env/env.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags } from '#lib/tags.ts';
import { NamespaceIndex } from './index/namespace_index.ts';
import { SegmentBuffer } from './persist/commitlog/format.ts';
import { Pace } from './storage/flush/pace.ts';

/**
 * By then V8 has compiled the loops over the tags of a series; with twice as many the first request
 * is hardly faster.
 */
const rehearsedSeries = 2_000;
/** Series of a batch: some milliseconds while the code is interpreted. */
const batchSeries = 50;
/** Share of the main loop's time. */
const rehearsalShare = 0.5;

const blockSizeNanos = 7_200_000_000_000n;
const noId = new Uint8Array(0);
const idScheme = idSchemeCode.quoted;

/** Resolves when it is done, or rejects when the signal aborts. */
export async function rehearseNewSeries(
  { clock, random }: Pick<Env, 'clock' | 'random'>,
  signal: AbortSignal,
): Promise<void> {
  const index = new NamespaceIndex({ random, blockSizeNanos });
  const buffer = new SegmentBuffer();
  const pace = new Pace(clock, () => rehearsalShare);
  for (let first = 0; first < rehearsedSeries; first += batchSeries) {
    const layouts = layoutsOf(first);
    insertAll(index, layouts, first);
    recordAll(buffer, layouts, first);
    await pace.rest(signal);
    signal.throwIfAborted();
  }
  assert(index.seriesCount === rehearsedSeries, 'every series of a rehearsal is new');
}

/** What the index has to do with a batch of new series. */
function insertAll(index: NamespaceIndex, layouts: readonly Uint8Array[], first: number): void {
  const slots = new Uint32Array(layouts.length);
  for (const [i, tags] of layouts.entries()) {
    slots[i] = first + i;
    if (index.find(tags, idScheme, noId) !== -1) continue;
    index.insertFound(first + i, tags, idScheme, noId, i);
  }
  index.markLive(slots, 0n);
}

/** What the log has to do with it. */
function recordAll(buffer: SegmentBuffer, layouts: readonly Uint8Array[], first: number): void {
  buffer.reset(1, 0);
  const namespaceOrdinal = buffer.namespaceOrdinal('rehearsal', 1);
  for (const [i, tags] of layouts.entries()) {
    const head = { slot: first + i, generation: 1, idScheme, explicitId: noId };
    buffer.addSeries(namespaceOrdinal, { ...head, tags });
  }
  buffer.bytes();
}

/** Tags of a usual fleet. */
function layoutsOf(first: number): Uint8Array[] {
  const parts = Array.from({ length: batchSeries }, (_, i) => encodeTags(fleetTags(first + i)));
  // Plain arrays that share one buffer, as those of a request do: code compiled for a Buffer would
  // not serve them.
  const joined = new Uint8Array(Buffer.concat(parts));
  let end = 0;
  return parts.map(({ length }) => joined.subarray(end, (end += length)));
}

function fleetTags(i: number): { name: string; value: string }[] {
  return [
    { name: '__name__', value: `metric_${i % 10}_total` },
    { name: 'cluster', value: `cluster-${i % 3}` },
    { name: 'instance', value: `host-${i}:9100` },
    { name: 'job', value: 'node' },
    { name: 'namespace', value: `team-${i % 7}` },
    { name: 'pod', value: `pod-${i >> 1}` },
    { name: 'rack', value: `${i % 100}` },
    { name: 'region', value: `region-${i % 9}` },
    { name: 'service', value: `service-${i % 20}` },
    { name: 'version', value: `1.${i % 4}` },
  ];
}
