/**
 * Parts that several aggregators make: the shards of storage are divided among shard sets, and each set makes what rows of its
 * own come to. Any of its members can, and so can anybody else, for it is a function of stored rows: who cannot be reached
 * costs others its work.
 */
import type { WindowPart } from '../../aggregation_rules/rollups/accumulators.ts';
import { type Output, Outputs } from '../../aggregation_rules/rollups/outputs.ts';
import type { StoragePolicy } from '../../aggregation_rules/rules.ts';
import type { RuleSetsOverTime } from '../../aggregation_rules/sets/over_time.ts';
import type { Instance, Placement } from '../../placement/placement.ts';
import type { Clock } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { Log } from '#lib/log.ts';
import type { PartsAsked, PartsOfWindows, RollupParts } from './parts.ts';
import { notDueCode, type PartsView } from './maker.ts';
import type { OutputParts, PartsRequest, PartsService } from './service.ts';

/** An answer takes as long as a reading of rows of a share; a member that takes longer is passed over. */
const answerMillisMax = 60_000;
/** For so long nothing is asked of who has failed. */
const avoidMillis = 30_000;
/** About what it takes to know an output by its name, and to sort a part, in units of work (lib/turns/turns.ts). */
const outputUnits = 500;
const partUnits = 50;
/** With more names of outputs all are forgotten. */
const outputsMax = 1_000_000;

export interface SharedPartsOptions {
  readonly policy: StoragePolicy;
  /** Of this process, an aggregator. */
  readonly id: string;
  /** Of aggregators. */
  readonly placement: Placement;
  /** Of outputs, that are made here. */
  readonly shards: readonly number[];
  readonly topology: { readonly view: PartsView };
  readonly own: PartsService;
  readonly peerOf: (instance: Instance, outputs: Outputs) => PartsService;
  readonly clock: Pick<Clock, 'monotonicMillis' | 'deadline' | 'sleep'>;
  readonly log: Log;
}

/** Who says that windows are due by its clock, and who does not. */
interface Votes {
  readonly due: Set<string>;
  readonly notDue: Set<string>;
}

/** Shards of storage, and who makes what their rows come to. */
interface Group {
  readonly storageShards: readonly number[];
  readonly members: readonly Instance[];
}

export class SharedParts implements RollupParts {
  readonly #options: SharedPartsOptions;
  readonly #avoidedUntil = new Map<string, number>();
  #outputs = new Outputs();
  #sets: RuleSetsOverTime | null = null;

  constructor(options: SharedPartsOptions) {
    this.#options = options;
  }

  async of({ windows, sets, isFinal }: PartsAsked, signal: AbortSignal): Promise<PartsOfWindows> {
    const { policy, id, placement, shards, topology, clock } = this.#options;
    const { view } = topology;
    if (view.placement === null) {
      throw new TsdbError('UNAVAILABLE', 'there is no placement of storage');
    }
    const { numShards: numStorageShards } = view.placement;
    if (this.#sets !== sets || this.#outputs.size > outputsMax) {
      this.#sets = sets;
      this.#outputs = new Outputs();
    }
    const votes: Votes = { due: new Set([id]), notDue: new Set() };
    const answers = await Promise.all(
      this.#groups(numStorageShards).map(({ members, storageShards }) => {
        const request = {
          policy,
          windows,
          isFinal,
          storeLineage: view.lineageId,
          namespacesRevision: view.namespacesRevision,
          numStorageShards,
          storageShards,
          numShards: placement.numShards,
          shards,
        };
        return this.#ask(members, request, votes, signal);
      }),
    );
    if (votes.notDue.size >= votes.due.size) {
      const others = [...votes.notDue].join(', ');
      throw new TsdbError(
        'UNAVAILABLE',
        `windows are not due by the clocks of ${others}: that of this process may be ahead`,
      );
    }
    const byWindow = Array.from({ length: windows.windowCount }, (): [Output, WindowPart][] => []);
    // Always in the same order, in which sums are the same numbers.
    const work = Turns.of(clock).begin(signal);
    for (const { output, windows: places, parts } of answers.flat()) {
      if (work.spend(outputUnits + partUnits * places.length)) await work.pause();
      const own = this.#outputs.ofKey(output.key);
      for (const [i, window] of places.entries()) byWindow[window]?.push([own, parts[i]!]);
    }
    return (window) => byWindow[window]!;
  }

  #groups(numStorageShards: number): Group[] {
    const { placement } = this.#options;
    const sets = [...Map.groupBy(placement.instances, ({ shardSetId }) => shardSetId)]
      .sort(([a], [b]) => a - b)
      .map(([, members]) => ({ members, storageShards: [] as number[] }));
    const setOf = new Map(
      sets.flatMap((set) => set.members[0]!.shards.map((shard) => [shard.id, set] as const)),
    );
    for (let shard = 0; shard < numStorageShards; shard++) {
      setOf.get(shard % placement.numShards)!.storageShards.push(shard);
    }
    return sets.filter(({ storageShards }) => storageShards.length > 0);
  }

  async #ask(
    members: readonly Instance[],
    request: PartsRequest,
    votes: Votes,
    signal: AbortSignal,
  ): Promise<readonly OutputParts[]> {
    const { id, own, peerOf, clock, log } = this.#options;
    // Everybody asks the same one, also who could make it: it makes it once.
    for (const member of members) {
      if (member.id === id) break;
      if ((this.#avoidedUntil.get(member.id) ?? 0) > clock.monotonicMillis()) continue;
      try {
        const deadline = clock.deadline(answerMillisMax, signal);
        const parts = await peerOf(member, this.#outputs).parts(request, deadline);
        votes.due.add(member.id);
        return parts;
      } catch (error) {
        if (signal.aborted || !(error instanceof TsdbError)) throw error;
        if (error.code === notDueCode) {
          votes.notDue.add(member.id);
          continue;
        }
        // It goes on, and fewer windows at once are there when they are asked for again.
        if (error.code === 'DEADLINE_EXCEEDED' && request.windows.windowCount > 1) throw error;
        this.#avoidedUntil.set(member.id, clock.monotonicMillis() + avoidMillis);
        const fields = { instance: member.id, error: messageOf(error) };
        log.warn(fields, 'an aggregator does not give its parts of rollups: others make them');
      }
    }
    return own.parts(request, signal);
  }
}
