/**
 * Makes parts of outputs for those who add them up: each window of some shards of storage once, however many ask. What was made
 * last is kept, so that who leads anew, or asks a moment later, costs no reading.
 */
import type { KnownRules } from '../../aggregation_rules/sets/follower.ts';
import type { WindowPart } from '../../aggregation_rules/rollups/accumulators.ts';
import type { Output } from '../../aggregation_rules/rollups/outputs.ts';
import { rulesKnownUntil } from '../../aggregation_rules/sets/over_time.ts';
import { rangesOf } from '../../placement/shard_ranges.ts';
import type { TopologyView } from '../../topology/topology.ts';
import type { Clock, Random } from '#lib/env/env.ts';
import { badRequest, shownText, TsdbError } from '#lib/errors.ts';
import { abortable } from '#lib/turns/abortable.ts';
import { Turns } from '#lib/turns/turns.ts';
import { latenessNanos } from './lateness.ts';
import { KeptParts, KeptWindows } from './kept_parts.ts';
import { type SeriesRows, StoredParts } from './parts.ts';
import {
  type OutputParts,
  type PartsRequest,
  type PartsService,
  shardOfOutput,
} from './service.ts';

/** Of policies, and divisions of the shards of storage: of these one, but while placements change. */
const groupsMax = 64;
/** Of a making, whoever waits for it. */
const makeMillisMax = 300_000;
/** Clocks differ by less, as a rule: a window that is asked for a moment too early is waited for. */
const aheadMillisMax = 5_000;
const nanosPerMilli = 1_000_000n;
/** About what it takes to copy a part, in units of work (lib/turns/turns.ts). */
const partUnits = 300;

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
  readonly random: Pick<Random, 'u32'>;
  /** Aborts when the process stops. */
  readonly stop: AbortSignal;
  /** How late rows may come. */
  readonly bufferPastNanos: () => bigint;
}

/** Some shards of storage, and a policy. */
interface Group {
  readonly parts: KeptParts;
  /** One reading at a time: who comes next finds what that has made. */
  tail: Promise<unknown>;
}

export class PartsMaker implements PartsService {
  readonly #options: PartsMakerOptions;
  /** The ones that were asked for last come last. */
  readonly #groups = new Map<string, Group>();
  #lastGroup = 0;
  readonly #kept: KeptWindows;

  constructor(options: PartsMakerOptions) {
    this.#options = options;
    const { clock } = options;
    this.#kept = new KeptWindows(() => clock.nowNanos());
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
    const group = known ?? this.#newGroup(policy, storageShards);
    this.#groups.set(key, group);
    for (const oldest of this.#groups.keys()) {
      if (this.#groups.size <= groupsMax) break;
      this.#groups.delete(oldest);
    }
    return group;
  }

  #newGroup(policy: PartsRequest['policy'], storageShards: readonly number[]): Group {
    const { rows, random, clock } = this.#options;
    const stored = new StoredParts(policy, rows, random, new Set(storageShards));
    this.#lastGroup += 1;
    const parts = new KeptParts(stored, clock, this.#kept, String(this.#lastGroup));
    return { parts, tail: Promise.resolve() };
  }

  async #parts(
    group: Group,
    { windows, isFinal, numShards, shards }: PartsRequest,
    signal: AbortSignal,
  ): Promise<readonly OutputParts[]> {
    const { clock, rules } = this.#options;
    const partsOf = await group.parts.of({ windows, sets: rules.known.sets, isFinal }, signal);
    const asked = new Set(shards);
    const byOutput = new Map<string, { output: Output; windows: number[]; parts: WindowPart[] }>();
    const work = Turns.of(clock).begin(signal);
    for (let window = 0; window < windows.windowCount; window++) {
      for (const [output, part] of partsOf(window)) {
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
}
