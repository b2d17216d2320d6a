/**
 * Parts of outputs, of which the last windows are kept: who asks for one once more, as for one that follows another that has
 * changed, costs no reading of rows.
 */
import { partFrom, type WindowPart } from '../../aggregation_rules/rollups/accumulators.ts';
import type { WindowsRange } from '../../aggregation_rules/rollups/map.ts';
import type { Output } from '../../aggregation_rules/rollups/outputs.ts';
import type { Clock } from '#lib/env/env.ts';
import { Turns } from '#lib/turns/turns.ts';
import type { PartsAsked, PartsOfWindows, RollupParts } from './parts.ts';

/** Of windows that are kept. */
const keptBytesMaxDefault: number = 128 * 1024 * 1024;
/** About what it takes to copy a part, in units of work (lib/turns/turns.ts). */
const partUnits = 300;
/** About what one part takes with the objects that it is of, its sketch, and each count of that. */
const partBytes = 400;
const sketchBytes = 700;
const sketchCountBytes = 30;
/** Of a window of nothing. */
const windowBytes = 300;

interface KeptWindow {
  /** Rows of it come late no longer. */
  readonly isFinal: boolean;
  readonly parts: readonly (readonly [Output, WindowPart])[];
  readonly bytes: number;
}

/** So far back a clock may be set without having been wrong before. */
const setBackNanosMax = 60_000_000_000n;

/** Windows of several makers. */
export class KeptWindows {
  readonly #nowNanos: () => bigint;
  readonly #bytesMax: number;
  /** When it was asked last. */
  #askedNanos = 0n;
  /** The ones that were made last come last. */
  readonly #all = new Map<string, KeptWindow>();
  #bytes = 0;

  /** @param nowNanos by the clock that says which windows are due */
  constructor(nowNanos: () => bigint, bytesMax: number = keptBytesMaxDefault) {
    this.#nowNanos = nowNanos;
    this.#bytesMax = bytesMax;
  }

  /** Before windows are asked for: those of a time that had not come, as the clock was ahead, are made anew. */
  begin(): void {
    const nowNanos = this.#nowNanos();
    if (nowNanos < this.#askedNanos - setBackNanosMax) {
      this.#all.clear();
      this.#bytes = 0;
    }
    this.#askedNanos = nowNanos;
  }

  get(key: string): KeptWindow | undefined {
    return this.#all.get(key);
  }

  keep(key: string, window: KeptWindow): void {
    this.#drop(key);
    this.#all.set(key, window);
    this.#bytes += window.bytes;
    for (const oldest of this.#all.keys()) {
      if (this.#bytes <= this.#bytesMax) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    this.#bytes -= this.#all.get(key)?.bytes ?? 0;
    this.#all.delete(key);
  }
}

export class KeptParts implements RollupParts {
  readonly #stored: RollupParts;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  readonly #kept: KeptWindows;
  readonly #name: string;

  /**
   * @param stored makes what is not kept
   * @param kept of several, which `name` tells apart
   */
  constructor(
    stored: RollupParts,
    clock: Pick<Clock, 'monotonicMillis'>,
    kept: KeptWindows,
    name: string,
  ) {
    this.#stored = stored;
    this.#clock = clock;
    this.#kept = kept;
    this.#name = name;
  }

  /** What is to be final is made once more, unless it was. */
  async of(asked: PartsAsked, signal: AbortSignal): Promise<PartsOfWindows> {
    const { windows, isFinal } = asked;
    this.#kept.begin();
    const found: (KeptWindow | undefined)[] = Array.from(
      { length: windows.windowCount },
      (_, window) => {
        const kept = this.#kept.get(this.#keyOf(windows, window));
        return kept !== undefined && (kept.isFinal || !isFinal) ? kept : undefined;
      },
    );
    for (let first = found.indexOf(undefined); first >= 0; first = found.indexOf(undefined)) {
      let past = first + 1;
      while (past < found.length && found[past] === undefined) past += 1;
      await this.#make(asked, first, past, found, signal);
    }
    return (window) => found[window]!.parts;
  }

  async #make(
    { windows, sets, isFinal }: PartsAsked,
    first: number,
    past: number,
    found: (KeptWindow | undefined)[],
    signal: AbortSignal,
  ): Promise<void> {
    const { resolutionNanos } = windows;
    const some = {
      resolutionNanos,
      firstEndNanos: endOf(windows, first),
      windowCount: past - first,
    };
    const partsOf = await this.#stored.of({ windows: some, sets, isFinal }, signal);
    const work = Turns.of(this.#clock).begin(signal);
    for (let window = first; window < past; window++) {
      // Times since the window began, as others make it of other windows.
      const later = (window - first) * Number(resolutionNanos);
      const parts: (readonly [Output, WindowPart])[] = [];
      let bytes = windowBytes;
      for (const [output, part] of partsOf(window - first)) {
        parts.push([output, partFrom(part, later)]);
        bytes += partBytes + bytesOf(part);
        if (work.spend(partUnits)) await work.pause();
      }
      const kept = { isFinal, parts, bytes };
      found[window] = kept;
      this.#kept.keep(this.#keyOf(windows, window), kept);
    }
  }

  #keyOf(windows: WindowsRange, window: number): string {
    return `${this.#name} ${endOf(windows, window)}`;
  }
}

const bytesOf = ({ sketch }: WindowPart): number =>
  sketch === null ? 0 : sketchBytes + sketchCountBytes * sketch.size;

const endOf = ({ firstEndNanos, resolutionNanos }: WindowsRange, window: number): bigint =>
  firstEndNanos + BigInt(window) * resolutionNanos;
