/**
 * One companion namespace (docs/EXEMPLARS.md) as a writer sees it: made when something is to be written to it and none
 * is there. Every step may be done by several coordinators at once, and again.
 *
 *     none ── add (compare-and-set) ──▸ not READY ── read at a majority ──▸ READY ── deleted by somebody ──▸ none
 */
import { addNamespace, advanceStaging } from './changes.ts';
import { isReady, type Namespace, type NamespaceRegistry } from './namespaces.ts';
import type { NamespaceStore } from './store.ts';
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';

export interface CompanionParts {
  readonly topology: { readonly view: { readonly namespaces: NamespaceRegistry } };
  readonly store: Pick<NamespaceStore, 'update'>;
  /** Reads the namespace at a majority of the replicas of each shard; rejects with a TsdbError where it cannot. */
  readonly prove: (namespace: string, signal: AbortSignal) => Promise<void>;
  readonly clock: Clock;
  readonly log: Log;
  /** Aborts when the process stops. */
  readonly signal: AbortSignal;
}

/** Nodes bootstrap a new namespace within seconds. */
const proofMillisMax = 60_000;
/** Before an attempt to read it: a session tries what fails again after half a second. */
const proofPauseMillis = 100;
const lookMillis = 20;
/** Between two attempts to make it: the first pause, doubled up to the last. */
const pauseMillisFirst = 10_000;
const pauseMillisMax = 600_000;

export class Companion {
  readonly #parts: CompanionParts;
  readonly name: string;
  readonly #wanted: () => Namespace;
  #isMaking = false;
  #notBeforeMillis = Number.NEGATIVE_INFINITY;
  #pauseMillis = pauseMillisFirst;

  /** @param wanted asked when it is made */
  constructor(parts: CompanionParts, name: string, wanted: () => Namespace) {
    this.#parts = parts;
    this.name = name;
    this.#wanted = wanted;
  }

  /** As it stands, READY or not; undefined when there is none. */
  get namespace(): Namespace | undefined {
    return this.#parts.topology.view.namespaces.get(this.name);
  }

  get isReady(): boolean {
    const { namespace } = this;
    return namespace !== undefined && isReady(namespace);
  }

  /** Whether rows may be written to it. Where not, it is made meanwhile. */
  prepare(): boolean {
    if (this.isReady) return true;
    const { clock, signal } = this.#parts;
    if (!this.#isMaking && !signal.aborted && clock.monotonicMillis() >= this.#notBeforeMillis) {
      this.#isMaking = true;
      void this.#make();
    }
    return false;
  }

  /** Somebody here makes it now. */
  get isMaking(): boolean {
    return this.#isMaking;
  }

  /** Waits until it is READY, at most so long. @returns whether it is */
  async becomesReady(millisMax: number): Promise<boolean> {
    const { clock, signal } = this.#parts;
    const end = clock.monotonicMillis() + millisMax;
    while (!this.isReady && !signal.aborted && clock.monotonicMillis() < end) {
      await clock.sleep(lookMillis, signal).catch(() => {});
    }
    return this.isReady;
  }

  async #make(): Promise<void> {
    const { clock, log, signal, store } = this.#parts;
    const { name } = this;
    try {
      await store.update(
        (registry) => (registry.has(name) ? registry : addNamespace(registry, this.#wanted())),
        signal,
      );
      await this.#proven(clock.deadline(proofMillisMax, signal));
      await store.update(
        (registry) =>
          registry.has(name) ? advanceStaging(registry, name, 'READY', clock.nowNanos()) : registry,
        signal,
      );
      this.#pauseMillis = pauseMillisFirst;
      // The view has it with the next change that it hears of.
      this.#notBeforeMillis = clock.monotonicMillis() + pauseMillisFirst;
      log.info({ namespace: name }, 'a namespace for what comes with samples is ready');
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof TsdbError)) throw error;
      this.#notBeforeMillis = clock.monotonicMillis() + this.#pauseMillis;
      this.#pauseMillis = Math.min(2 * this.#pauseMillis, pauseMillisMax);
      log.warn(
        { err: error, namespace: name },
        'a namespace for what comes with samples could not be made; it is tried again later',
      );
    } finally {
      this.#isMaking = false;
    }
  }

  async #proven(deadline: AbortSignal): Promise<void> {
    const { clock, prove } = this.#parts;
    for (;;) {
      await clock.sleep(proofPauseMillis, deadline);
      try {
        return await prove(this.name, deadline);
      } catch (error) {
        if (deadline.aborted || !(error instanceof TsdbError)) throw error;
      }
    }
  }
}
