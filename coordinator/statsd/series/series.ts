/** Metrics of statsd as they are kept between flushes; how they are named and written is a matter of the form (prometheus.ts, graphite.ts). */
import type { LineProblem, PartProblem, StatsdEvent } from '../lines/line.ts';
import { type EventSink, forwardedTarget } from '../lines/reader.ts';
import { hashOf } from '../receivers/receivers.ts';
import { counterKind, gaugeKind, type Refusal, setKind, StatsdCounts } from './counts.ts';
import { MemberRoom, Members } from './members.ts';
import { SeriesTable } from './table.ts';

/** What every series has beside its numbers. */
export interface SeriesPart {
  /** 0 for never. */
  readonly ttlMillis: number;
}

/** A metric with its tags, as a form names it. */
export interface NamedSeries<Part> {
  readonly key: string;
  readonly kind: number;
  /** Values are multiplied by it; of two rules that make one series each may have its own. */
  readonly scale: number;
  /** Where it is kept it may be refused. */
  readonly refusal: Refusal | null;
  readonly part: (nowMillis: number) => Part;
}

/** Of several coordinators, which keeps what. */
export interface SeriesOwners {
  /** Null when it is kept here. @param hash of the series */
  ownerOf(hash: number): number | null;
  /** @param bytes with a line of the owner in [from, end) */
  forward(owner: number, bytes: Uint8Array, from: number, end: number): void;
}

/** In the order of their codes as targets: -1, -2, … */
const refusedTargets: readonly Refusal[] = [
  'too_many_series',
  'conflicting_type',
  'reserved_label',
  'dropped_by_mapping',
];

/** Targets from it on are places whose values are scaled. */
const firstScaled = 2 ** 30;

/** Series that are looked at in one go, whether something has come of them. */
export const lookedAtOnce = 1_024;

/** @typeParam Part what a series of the form has beside numbers */
export abstract class StatsdSeries<Part extends SeriesPart> implements EventSink {
  abstract readonly timerUnitMillis: number;
  protected abstract readonly takesNegativeCounters: boolean;
  /** Why `observe` does not take a value. */
  protected abstract readonly unobserved: Refusal;
  readonly counts: StatsdCounts = new StatsdCounts();
  protected readonly table: SeriesTable<Part> = new SeriesTable<Part>();
  readonly #seriesMax: number;
  readonly #members = new MemberRoom();
  readonly #scaled: { readonly place: number; readonly scale: number }[] = [];
  readonly #scaledTargets = new Map<string, number>();
  /** Of what is read just now. */
  nowMillis = 0;
  /** Null where all are kept here. */
  owners: SeriesOwners | null = null;
  /** Series begin at the earliest then: others had them before. */
  beginMillisMin = 0;
  /** What is read came by others, who have counted its lines. */
  isForwarded = false;

  constructor(seriesMax: number) {
    this.#seriesMax = seriesMax;
  }

  get seriesCount(): number {
    return this.table.count;
  }

  /** Names what an event is of, or says why it is not taken. */
  protected abstract named(
    event: Pick<StatsdEvent, 'type' | 'name' | 'labels'>,
  ): NamedSeries<Part> | Refusal;
  /** @param value no NaN */
  protected abstract observe(place: number, value: number, times: number): boolean;
  /** Lines of a series at a time, which begins its next window. */
  protected abstract linesOf(place: number, nowMillis: number): Iterable<string>;
  /** A series is there, or is there no more. */
  protected abstract noteAdded(place: number): void;
  protected abstract noteRemoved(place: number): void;

  targetOf(event: Pick<StatsdEvent, 'type' | 'name' | 'labels'>): number {
    const named = this.named(event);
    if (typeof named === 'string') return refusedTarget(named);
    const { key, kind, scale, refusal, part } = named;
    const hash = hashOf(key);
    const owner = this.owners?.ownerOf(hash) ?? null;
    if (owner !== null) return forwardedTarget - owner;
    if (refusal !== null) return refusedTarget(refusal);
    const known = this.table.placeOf(key);
    if (known !== null) return this.#targetOf(known, scale);
    if (this.table.count >= this.#seriesMax) return refusedTarget('too_many_series');
    const members = kind === setKind ? new Members(this.#members) : null;
    const beginMillis = Math.max(this.nowMillis, this.beginMillisMin);
    const place = this.table.add(key, hash, kind, part(beginMillis), members, beginMillis);
    this.noteAdded(place);
    return this.#targetOf(place, scale);
  }

  #targetOf(place: number, scale: number): number {
    if (scale === 1) return place;
    const key = `${place} ${scale}`;
    let target = this.#scaledTargets.get(key);
    if (target === undefined) {
      target = firstScaled + this.#scaled.push({ place, scale }) - 1;
      this.#scaledTargets.set(key, target);
    }
    return target;
  }

  take(target: number, value: number, times: number, isRelative: boolean): void {
    if (target < 0) {
      this.counts.noteRefused(refusedTargets[-1 - target]!);
      return;
    }
    if (target >= firstScaled) {
      const { place, scale } = this.#scaled[target - firstScaled]!;
      this.#takeAt(place, value * scale, times, isRelative);
    } else this.#takeAt(target, value, times, isRelative);
  }

  #takeAt(target: number, scaled: number, times: number, isRelative: boolean): void {
    const { table } = this;
    const kind = table.kinds[target]!;
    if (kind === counterKind) {
      const sum = table.values[target]! + scaled;
      if (!Number.isFinite(sum)) return this.counts.noteRefused('not_finite');
      if (scaled < 0 && !this.takesNegativeCounters)
        return this.counts.noteRefused('negative_counter');
      table.values[target] = sum;
    } else if (kind === gaugeKind) {
      table.values[target] = isRelative ? table.values[target]! + scaled : scaled;
    } else {
      if (!Number.isFinite(scaled)) return this.counts.noteRefused('not_finite');
      if (!this.observe(target, scaled, times)) return this.counts.noteRefused(this.unobserved);
    }
    this.counts.samples[kind]!++;
    table.updatedMillis[target] = this.nowMillis;
    table.hasUnwritten[target] = 1;
  }

  takeMember(target: number, member: string): void {
    if (target < 0) {
      this.counts.noteRefused(refusedTargets[-1 - target]!);
      return;
    }
    const place = target >= firstScaled ? this.#scaled[target - firstScaled]!.place : target;
    if (!this.table.members[place]!.add(member)) {
      this.counts.noteRefused('too_many_values');
      return;
    }
    this.counts.samples[setKind]!++;
    this.table.updatedMillis[place] = this.nowMillis;
    this.table.hasUnwritten[place] = 1;
  }

  forward(target: number, bytes: Uint8Array, from: number, end: number): void {
    this.owners!.forward(forwardedTarget - target, bytes, from, end);
  }

  noteLine(): void {
    if (!this.isForwarded) this.counts.lines++;
  }

  noteProblem(problem: LineProblem): void {
    if (!this.isForwarded) this.counts.noteRefused(problem);
  }

  notePartProblem(problem: PartProblem): void {
    if (!this.isForwarded) this.counts.notePart(problem);
  }

  /**
   * Lines of all series, one series at a time. Those that left are gone then.
   * @param now asked for each
   */
  *lines(now: () => number): Generator<Iterable<string>> {
    const { table } = this;
    // Those that come meanwhile are for the next time.
    const { end } = table;
    for (let place = 0; place < end; place++) {
      if (table.isUsed[place] === 0) continue;
      const untilMillis = table.untilMillis[place]!;
      table.hasUnwritten[place] = 0;
      yield this.linesOf(place, Math.min(now(), untilMillis));
      if (untilMillis !== Infinity) this.#remove(place);
    }
  }

  /** Others may have kept any series that is here: all are written once more, and begin anew. @param untilMillis of last rows */
  leaveAll(untilMillis: number): void {
    this.table.detachAll(untilMillis);
  }

  /**
   * Series that others keep now are written once more. What comes does not reach them any longer.
   * @param untilMillis of their last rows
   * @param onSeries after each
   */
  async leave(untilMillis: number, onSeries: () => Promise<void> | null): Promise<void> {
    const { table } = this;
    const { end } = table;
    for (let place = 0; place < end; place++) {
      const isHere = table.isUsed[place] === 1 && table.untilMillis[place] === Infinity;
      if (isHere && this.owners!.ownerOf(table.hashes[place]!) !== null) {
        table.detach(place, untilMillis);
      }
      const pause = onSeries();
      if (pause !== null) await pause;
    }
  }

  #remove(place: number): void {
    this.noteRemoved(place);
    this.table.remove(place);
  }

  /**
   * Forgets series that nothing has come of for their time, some at a time; what has not been written stays, however short the
   * time is. Gives whether there were any since the last time: who knows them by their places has to forget them before another
   * line comes.
   */
  *forgetIdle(nowMillis: number): Generator<boolean> {
    const { table } = this;
    let isAny = false;
    for (let place = 0; place < table.end; place++) {
      if (place % lookedAtOnce === lookedAtOnce - 1) {
        yield isAny;
        isAny = false;
      }
      if (table.isUsed[place] === 0) continue;
      const { ttlMillis } = table.parts[place]!;
      if (ttlMillis === 0 || nowMillis - table.updatedMillis[place]! < ttlMillis) continue;
      if (table.untilMillis[place] !== Infinity || table.hasUnwritten[place] === 1) continue;
      this.#remove(place);
      isAny = true;
    }
    yield isAny;
  }
}

function refusedTarget(refusal: Refusal): number {
  return -1 - refusedTargets.indexOf(refusal);
}
