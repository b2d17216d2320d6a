/**
 * Batches of a commit log as columns for the store: read and given the slots of this boot by the
 * kernel of engine/batch/kernel/replay.kernel.ts. What that does not take, `readTypedBatch` reads.
 */
import { compileWasmFile } from '#lib/env/wasm.ts';
import { readTypedBatch, rowsOfBatch } from './read.ts';
import type { ReplayExports } from './replay_exports.ts';
import { timeUnitOfExponent } from './format.ts';
import { pickRows, type RowsOfKind, type StoreRows } from '../store/rows.ts';

/** A batch whose rows have the slots of this boot. */
export interface ReplayedBatch {
  readonly version: number;
  readonly derivesVersions: boolean;
  /** Floats, then typed rows; those of which there are none are left out. */
  readonly parts: readonly ReplayedRows[];
}

/** Rows of one kind. */
export interface ReplayedRows {
  /** As they were logged, at least one. */
  readonly rowCount: number;
  /** Oldest and newest of these, in `timeUnitNanos`. */
  readonly first: bigint;
  readonly last: bigint;
  readonly timeUnitNanos: number;
  /** Rows of series that stand in no dictionary. */
  readonly rowsUnknown: number;
  /** Rows of series that are not here. */
  readonly rowsNotHere: number;
  /** The rest; borrowed until the next batch. */
  readonly taken: RowsOfKind;
}

const wasmPageBytes = 65_536;
const pagesMin = 128;
const pagesMax = 65_536;
const mapEntryBytes = 16;
const mapEntriesMin = 1024;
const slotUnknown = 0;
const slotNotHere = 2 ** 32 - 1;

let compiled: WebAssembly.Module | null = null;

/** By slot of a log: the slot of this boot. */
export class SlotMap {
  /** In the memory of the decoder. */
  at = 0;
  capacity = 0;
}

/** Of the kernel's memory, until it grows. */
interface Views {
  readonly batch: Uint8Array;
  readonly state: DataView;
  readonly columns: Omit<StoreRows, 'rowCount' | 'timeUnitNanos'>;
  readonly words: Uint32Array;
}

/** Reads the batches of one segment after the other. */
export class BatchReplay {
  readonly #memory: WebAssembly.Memory;
  readonly #kernel: ReplayExports;
  #views: Views;
  /** Maps begin here; each has its room for good. */
  #mapsEnd: number;

  constructor() {
    compiled ??= compileWasmFile(new URL('../build/replay.wasm', import.meta.url));
    this.#memory = new WebAssembly.Memory({ initial: pagesMin, maximum: pagesMax });
    const instance = new WebAssembly.Instance(compiled, { env: { memory: this.#memory } });
    this.#kernel = instance.exports as unknown as ReplayExports;
    this.#views = this.#makeViews();
    this.#mapsEnd = this.#kernel.maps.value;
  }

  #makeViews(): Views {
    const { state, batch, batchBytesMax, rowsMax, slots, generations, times, values } =
      this.#kernel;
    const { buffer } = this.#memory;
    return {
      batch: new Uint8Array(buffer, batch.value, batchBytesMax.value),
      state: new DataView(buffer, state.value, 64),
      columns: {
        slots: new Uint32Array(buffer, slots.value, rowsMax.value),
        generations: new Uint32Array(buffer, generations.value, rowsMax.value),
        timestamps: new BigInt64Array(buffer, times.value, rowsMax.value),
        values: new Float64Array(buffer, values.value, rowsMax.value),
      },
      words: new Uint32Array(buffer),
    };
  }

  /** Begins anew: the maps that were given are worthless. */
  reset(): void {
    this.#mapsEnd = this.#kernel.maps.value;
  }

  /** @param slot of this boot; null when the series is not here */
  setSeries(
    map: SlotMap,
    logged: { readonly slot: number; readonly generation: number },
    slot: number | null,
    generation: number,
  ): void {
    if (logged.slot >= map.capacity) this.#grow(map, logged.slot + 1);
    const at = (map.at + logged.slot * mapEntryBytes) >>> 2;
    const { words } = this.#views;
    words[at] = slot === null ? slotNotHere : slot + 1;
    words[at + 1] = logged.generation;
    words[at + 2] = generation;
  }

  /** The series of this boot; null when it is unknown, with a null slot when it is not here. */
  entryOf(
    map: SlotMap,
    slot: number,
    loggedGeneration: number,
  ): { readonly slot: number | null; readonly generation: number } | null {
    if (slot >= map.capacity) return null;
    const at = (map.at + slot * mapEntryBytes) >>> 2;
    const { words } = this.#views;
    const to = words[at]!;
    if (to === slotUnknown || words[at + 1] !== loggedGeneration) return null;
    return { slot: to === slotNotHere ? null : to - 1, generation: words[at + 2]! };
  }

  /** Forgets all series of a map. */
  clear(map: SlotMap): void {
    this.#views.words.fill(0, map.at >>> 2, (map.at + map.capacity * mapEntryBytes) >>> 2);
  }

  /**
   * The batch with the slots of this boot, or null when `replayedByReader` is to read it or to say
   * what is wrong.
   */
  decode(map: SlotMap | null, bytes: Uint8Array): ReplayedBatch | null {
    const { batch, state, columns } = this.#views;
    if (bytes.length > batch.length) return null;
    batch.set(bytes);
    const taken = this.#kernel.decode(bytes.length, map?.at ?? 0, map?.capacity ?? 0);
    if (taken < 0) return null;
    const version = state.getFloat64(0, true);
    const derivesVersions = state.getUint32(44, true) !== 0;
    const rowCount = state.getUint32(24, true);
    if (rowCount === 0) return { version, derivesVersions, parts: [] };
    const timeUnitNanos = timeUnitOfExponent.get(state.getUint32(36, true))!;
    const part: ReplayedRows = {
      rowCount,
      first: state.getBigInt64(8, true),
      last: state.getBigInt64(16, true),
      timeUnitNanos,
      rowsUnknown: state.getUint32(28, true),
      rowsNotHere: state.getUint32(32, true),
      taken: { kind: 'float', rows: { rowCount: taken, timeUnitNanos, ...columns } },
    };
    return { version, derivesVersions, parts: [part] };
  }

  #grow(map: SlotMap, wanted: number): void {
    const capacity = Math.max(wanted, 2 * map.capacity, mapEntriesMin);
    const at = this.#mapsEnd;
    const end = at + capacity * mapEntryBytes;
    const pagesMissing = Math.ceil((end - this.#memory.buffer.byteLength) / wasmPageBytes);
    if (pagesMissing > 0) {
      this.#memory.grow(pagesMissing);
      this.#views = this.#makeViews();
    }
    this.#mapsEnd = end;
    const from = map.at >>> 2;
    const length = (map.capacity * mapEntryBytes) >>> 2;
    const { words } = this.#views;
    words.fill(0, (at >>> 2) + length, end >>> 2);
    words.copyWithin(at >>> 2, from, from + length);
    map.at = at;
    map.capacity = capacity;
  }
}

/**
 * What `BatchReplay.decode` gives, by the reader of any batch: for all that a log may hold and the
 * kernel does not take. A fuzz holds both equal.
 * @returns fresh columns, or views of the bytes
 * @throws {TsdbError} BAD_REQUEST naming what is wrong
 */
export function replayedByReader(
  replay: BatchReplay,
  map: SlotMap | null,
  bytes: Uint8Array,
): ReplayedBatch {
  const batch = readTypedBatch(bytes);
  const { version, derivesVersions } = batch;
  const parts = rowsOfBatch(batch).map((of) => replayedRows(replay, map, of));
  return { version, derivesVersions, parts };
}

function replayedRows(replay: BatchReplay, map: SlotMap | null, of: RowsOfKind): ReplayedRows {
  const { rowCount, slots, generations, timestamps, timeUnitNanos } = of.rows;
  const places = new Uint32Array(rowCount);
  const references: { slot: number; generation: number }[] = [];
  let [rowsUnknown, rowsNotHere] = [0, 0];
  let first = timestamps[0]!;
  let last = first;
  for (let row = 0; row < rowCount; row++) {
    const time = timestamps[row]!;
    if (time < first) first = time;
    if (time > last) last = time;
    const entry = map === null ? null : replay.entryOf(map, slots[row]!, generations[row]!);
    if (entry === null) rowsUnknown += 1;
    else if (entry.slot === null) rowsNotHere += 1;
    else {
      places[references.length] = row;
      references.push({ slot: entry.slot, generation: entry.generation });
    }
  }
  const taken = pickRows(of, places.subarray(0, references.length));
  references.forEach(({ slot, generation }, row) => {
    taken.rows.slots[row] = slot;
    taken.rows.generations[row] = generation;
  });
  return { rowCount, first, last, timeUnitNanos, rowsUnknown, rowsNotHere, taken };
}
