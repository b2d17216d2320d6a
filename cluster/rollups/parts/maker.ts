/**
 * Makes parts of outputs for those who add them up: each window of some shards of storage once, however many ask. What was made
 * last is kept, so that who leads anew, or asks a moment later, costs no reading.
 */
import type { KnownRules } from '../../aggregation_rules/sets/follower.ts';
import {
  accumulatorFields,
  partFrom,
  type WindowPart,
} from '../../aggregation_rules/rollups/accumulators.ts';
import type { Output } from '../../aggregation_rules/rollups/outputs.ts';
import { rulesKnownUntil } from '../../aggregation_rules/sets/over_time.ts';
import { rangesOf } from '../../placement/shard_ranges.ts';
import type { TopologyView } from '../../topology/topology.ts';
import type { Clock } from '#lib/env/env.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { abortable } from '#lib/turns/abortable.ts';
import { Turns } from '#lib/turns/turns.ts';
import { latenessNanos } from './lateness.ts';
import { type SeriesRows, StoredParts } from './parts.ts';
import {
  type OutputParts,
  type PartsRequest,
  type PartsService,
  shardOfOutput,
} from './service.ts';

/** Of windows that are kept. */
const keptBytesMax = 128 * 1024 * 1024;
/** Of policies, and divisions of the shards of storage: of these one, but while placements change. */
const groupsMax = 64;
/** Of a making, whoever waits for it. */
const makeMillisMax = 300_000;
/** Clocks differ by less, as a rule: a window that is asked for a moment too early is waited for. */
const aheadMillisMax = 5_000;
const nanosPerMilli = 1_000_000n;
/** About what it takes to copy a part, in units of work (lib/turns/turns.ts). */
const partUnits = 300;
/** About what one part takes, and its sketch. */
const partBytes = accumulatorFields * 8 + 64;
const sketchBytes = 2_000;
/** Of a window of nothing. */
const windowBytes = 300;

/** Of a refusal by the clock: the one of whom asks may be ahead. */
export const notDueCode = 'FAILED_PRECONDITION';

/** What is known of storage. */
export type PartsView = Pick<
  TopologyView,
  'isLoaded' | 'awaitsApproval' | 'lineageId' | 'namespacesRevision' | 'placement'
>;

export interface PartsMakerOptions {
  readonly rows: SeriesRows;
  readonly rules: { readonly known: KnownRules };
  readonly topology: { readonly view: PartsView };
  readonly clock: Pick<Clock, 'nowNanos' | 'monotonicMillis' | 'sleep' | 'deadline'>;
  /** Aborts when the process stops. */
  readonly stop: AbortSignal;
  /** How late rows may come. */
  readonly bufferPastNanos: () => bigint;
}

interface KeptWindow {
  readonly isFinal: boolean;
  readonly parts: readonly (readonly [Output, WindowPart])[];
  readonly bytes: number;
}

/** Some shards of storage, and a policy. */
interface Group {
  readonly number: number;
  readonly stored: StoredParts;
  /** One reading at a time: who comes next finds what that has made. */
  tail: Promise<unknown>;
}

export class PartsMaker implements PartsService {
  readonly #options: PartsMakerOptions;
  /** The ones that were asked for last come last. */
  readonly #groups = new Map<string, Group>();
  #lastGroup = 0;
  /** By group and end; the ones that were made last come last. */
  readonly #kept = new Map<string, KeptWindow>();
  #keptBytes = 0;

  constructor(options: PartsMakerOptions) {
    this.#options = options;
  }

  async parts(request: PartsRequest, signal: AbortSignal): Promise<readonly OutputParts[]> {
    this.#known(request);
    await this.#due(request, signal);
    const group = this.#groupOf(request);
    const making = group.tail.then(() => {
      signal.throwIfAborted();
      // It goes on when whoever asks has given up: others wait, and it is asked for again.
      const { clock, stop } = this.#options;
      return this.#parts(group, request, clock.deadline(makeMillisMax, stop));
    });
    group.tail = making.catch(() => {});
    let parts: readonly OutputParts[] = [];
    await abortable(signal, (resolve, reject) => {
      making.then((made) => {
        parts = made;
        resolve();
      }, reject);
    });
    return parts;
  }

  /** @throws {TsdbError} where this process knows of another storage, or of less than whoever asks */
  #known({ storeLineage, namespacesRevision, numStorageShards }: PartsRequest): void {
    const { view } = this.#options.topology;
    if (!view.isLoaded || view.awaitsApproval || view.placement === null) {
      throw new TsdbError('UNAVAILABLE', 'storage is not known to this aggregator yet');
    }
    if (view.lineageId !== storeLineage) {
      throw badRequest(`store_lineage: not ${view.lineageId}: ${shownText(storeLineage)}`);
    }
    if (view.placement.numShards !== numStorageShards) {
      throw badRequest(`num_storage_shards: not ${view.placement.numShards}: ${numStorageShards}`);
    }
    if (view.namespacesRevision < namespacesRevision) {
      throw new TsdbError(
        'UNAVAILABLE',
        `namespaces of revision ${namespacesRevision} are not known to this aggregator yet`,
      );
    }
  }

  /** Waits until the windows may be made. */
  async #due({ windows, isFinal }: PartsRequest, signal: AbortSignal): Promise<void> {
    const { clock, rules, bufferPastNanos } = this.#options;
    const { resolutionNanos, firstEndNanos, windowCount } = windows;
    const lastEndNanos = firstEndNanos + BigInt(windowCount - 1) * resolutionNanos;
    const lateNanos = isFinal ? bufferPastNanos() : 0n;
    const dueNanos = lastEndNanos + latenessNanos(resolutionNanos) + lateNanos;
    const waitMillis = Number((dueNanos - clock.nowNanos()) / nanosPerMilli) + 1;
    if (waitMillis > aheadMillisMax) {
      throw new TsdbError(
        notDueCode,
        `windows are not due by the clock of this aggregator for another ${waitMillis} ms`,
      );
    }
    if (waitMillis > 1) await clock.sleep(waitMillis, signal);
    const { knownNanos } = rules.known;
    if (knownNanos === null || rulesKnownUntil(knownNanos) < lastEndNanos - resolutionNanos) {
      throw new TsdbError(
        'UNAVAILABLE',
        'rules of these windows are not known to this aggregator yet',
      );
    }
  }

  #groupOf({ policy, storageShards }: PartsRequest): Group {
    const { resolutionNanos, retentionNanos } = policy;
    const key = `${resolutionNanos}:${retentionNanos} ${rangesOf(storageShards)}`;
    const known = this.#groups.get(key);
    this.#groups.delete(key);
    const group = known ?? {
      number: (this.#lastGroup += 1),
      stored: new StoredParts(policy, this.#options.rows, new Set(storageShards)),
      tail: Promise.resolve(),
    };
    this.#groups.set(key, group);
    for (const oldest of this.#groups.keys()) {
      if (this.#groups.size <= groupsMax) break;
      this.#groups.delete(oldest);
    }
    return group;
  }

  async #parts(
    group: Group,
    request: PartsRequest,
    signal: AbortSignal,
  ): Promise<readonly OutputParts[]> {
    const { windows, isFinal, numShards, shards } = request;
    const found = new Map<number, KeptWindow>();
    for (let window = 0; window < windows.windowCount; ) {
      const kept = this.#kept.get(windowKey(group, endOf(windows, window)));
      if (kept !== undefined && (kept.isFinal || !isFinal)) {
        found.set(window, kept);
        window += 1;
        continue;
      }
      let past = window + 1;
      for (; past < windows.windowCount; past++) {
        const next = this.#kept.get(windowKey(group, endOf(windows, past)));
        if (next !== undefined && (next.isFinal || !isFinal)) break;
      }
      await this.#make(group, request, window, past, found, signal);
      window = past;
    }
    const asked = new Set(shards);
    const byOutput = new Map<string, { output: Output; windows: number[]; parts: WindowPart[] }>();
    const work = Turns.of(this.#options.clock).begin(signal);
    for (const [window, { parts }] of found) {
      for (const [output, part] of parts) {
        if (work.spend(partUnits)) await work.pause();
        if (!asked.has(shardOfOutput(output, numShards))) continue;
        let of = byOutput.get(output.key);
        if (of === undefined) byOutput.set(output.key, (of = { output, windows: [], parts: [] }));
        of.windows.push(window);
        of.parts.push(part);
      }
    }
    return [...byOutput.values()].map(({ output, windows: places, parts }) => ({
      output,
      windows: Uint32Array.from(places),
      parts,
    }));
  }

  async #make(
    { number, stored }: Group,
    { windows, isFinal }: PartsRequest,
    first: number,
    past: number,
    found: Map<number, KeptWindow>,
    signal: AbortSignal,
  ): Promise<void> {
    const { resolutionNanos } = windows;
    const some = {
      resolutionNanos,
      firstEndNanos: endOf(windows, first),
      windowCount: past - first,
    };
    const { sets } = this.#options.rules.known;
    const partsOf = await stored.of({ windows: some, sets, isFinal }, signal);
    const work = Turns.of(this.#options.clock).begin(signal);
    for (let window = first; window < past; window++) {
      // Times since the window began, as others make it of other windows.
      const later = (window - first) * Number(resolutionNanos);
      const parts: (readonly [Output, WindowPart])[] = [];
      let bytes = windowBytes;
      for (const [output, part] of partsOf(window - first)) {
        parts.push([output, partFrom(part, later)]);
        bytes += partBytes + (part.sketch === null ? 0 : sketchBytes);
        if (work.spend(partUnits)) await work.pause();
      }
      const kept = { isFinal, parts, bytes };
      found.set(window, kept);
      this.#keep(windowKey({ number }, endOf(windows, window)), kept);
    }
  }

  #keep(key: string, window: KeptWindow): void {
    this.#drop(key);
    this.#kept.set(key, window);
    this.#keptBytes += window.bytes;
    for (const oldest of this.#kept.keys()) {
      if (this.#keptBytes <= keptBytesMax) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#keptBytes -= this.#kept.get(key)?.bytes ?? 0;
    this.#kept.delete(key);
  }
}

const endOf = (
  { firstEndNanos, resolutionNanos }: PartsRequest['windows'],
  window: number,
): bigint => firstEndNanos + BigInt(window) * resolutionNanos;

const windowKey = ({ number }: Pick<Group, 'number'>, endNanos: bigint): string =>
  `${number} ${endNanos}`;
