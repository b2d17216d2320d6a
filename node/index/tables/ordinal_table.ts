/**
 * Hash table from a 32-bit hash to ordinals, over flat memory: linear probing on (hash, ordinal +
 * 1) pairs of u32. What an ordinal stands for is compared by the caller, who walks the candidates:
 *
 *     for (let at = table.first(hash); at >= 0; at = table.next()) if (isEqual(at)) return at;
 *
 * It is split by the upper bits of the hash, so that growing never touches more than a small part
 * at once.
 */
const partitionBits = 8;
const partitionCount = 1 << partitionBits;
const partitionSlotsMin = 8;

export class OrdinalTable {
  readonly #partitions: Uint32Array[];
  readonly #counts: Uint32Array;
  #slotBytes: number;
  #probePartition: Uint32Array;
  #probeHash: number;
  #probeSlot: number;

  constructor() {
    this.#partitions = Array.from(
      { length: partitionCount },
      () => new Uint32Array(2 * partitionSlotsMin),
    );
    this.#counts = new Uint32Array(partitionCount);
    this.#slotBytes = partitionCount * this.#partitions[0]!.byteLength;
    this.#probePartition = this.#partitions[0]!;
    this.#probeHash = 0;
    this.#probeSlot = 0;
  }

  /** Makes room for this many more pairs, so that adding them moves nothing. */
  reserve(count: number): void {
    // Hashes spread unevenly: a partition of n pairs on average has some 4 √n more now and then.
    const mean = count / partitionCount;
    const wanted = Math.ceil(mean + 4 * Math.sqrt(mean));
    for (let i = 0; i < partitionCount; i++) {
      let slots = this.#partitions[i]!;
      if ((this.#counts[i]! + wanted) * 8 <= slots.length * 3) continue;
      let size = slots.length;
      while ((this.#counts[i]! + wanted) * 8 > size * 3) size *= 2;
      this.#slotBytes += size * Uint32Array.BYTES_PER_ELEMENT - slots.byteLength;
      slots = resized(slots, size);
      this.#partitions[i] = slots;
    }
  }

  /** First ordinal that was added with this hash, or -1. Starts a walk that `next` continues. */
  first(hash: number): number {
    const slots = this.#partitions[hash >>> (32 - partitionBits)]!;
    this.#probePartition = slots;
    this.#probeHash = hash >>> 0;
    this.#probeSlot = hash & ((slots.length >>> 1) - 1);
    return this.next();
  }

  /** Next ordinal of the walk, or -1. The table must not change during a walk. */
  next(): number {
    const slots = this.#probePartition;
    const mask = (slots.length >>> 1) - 1;
    let slot = this.#probeSlot;
    for (;;) {
      const ordinalPlusOne = slots[2 * slot + 1]!;
      if (ordinalPlusOne === 0) return -1;
      const isHit = slots[2 * slot]! === this.#probeHash;
      slot = (slot + 1) & mask;
      if (isHit) {
        this.#probeSlot = slot;
        return ordinalPlusOne - 1;
      }
    }
  }

  /** Adds an ordinal below 2^32 - 1; the same pair must not be in the table. */
  add(hash: number, ordinal: number): void {
    const partition = hash >>> (32 - partitionBits);
    let slots = this.#partitions[partition]!;
    const count = ++this.#counts[partition]!;
    if (count * 8 > slots.length * 3) {
      this.#slotBytes += slots.byteLength;
      slots = resized(slots, 2 * slots.length);
      this.#partitions[partition] = slots;
    }
    place(slots, hash >>> 0, ordinal + 1);
  }

  /**
   * Adds many pairs, partition by partition: each part of the table is then in the cache while it
   * is filled, which is several times faster than adding them as they come.
   */
  addMany(hashes: Uint32Array, ordinals: Uint32Array): void {
    const starts = new Uint32Array(partitionCount + 1);
    for (let i = 0; i < hashes.length; i++) starts[(hashes[i]! >>> (32 - partitionBits)) + 1]!++;
    for (let i = 0; i < partitionCount; i++) starts[i + 1]! += starts[i]!;
    const ends = starts.slice();
    const pairs = new Uint32Array(2 * hashes.length);
    for (let i = 0; i < hashes.length; i++) {
      const at = 2 * ends[hashes[i]! >>> (32 - partitionBits)]!++;
      pairs[at] = hashes[i]!;
      pairs[at + 1] = ordinals[i]!;
    }
    for (let partition = 0; partition < partitionCount; partition++) {
      const end = starts[partition + 1]!;
      for (let i = starts[partition]!; i < end; i++) this.add(pairs[2 * i]!, pairs[2 * i + 1]!);
    }
  }

  /** Removes the pair; false when it is not there. */
  remove(hash: number, ordinal: number): boolean {
    const partition = hash >>> (32 - partitionBits);
    const slots = this.#partitions[partition]!;
    const mask = (slots.length >>> 1) - 1;
    const wanted = hash >>> 0;
    let slot = hash & mask;
    while (slots[2 * slot + 1] !== 0) {
      if (slots[2 * slot] === wanted && slots[2 * slot + 1] === ordinal + 1) {
        closeGap(slots, slot);
        this.#counts[partition]!--;
        return true;
      }
      slot = (slot + 1) & mask;
    }
    return false;
  }

  get memoryBytes(): number {
    return this.#slotBytes;
  }
}

function place(slots: Uint32Array, hash: number, ordinalPlusOne: number): void {
  const mask = (slots.length >>> 1) - 1;
  let slot = hash & mask;
  while (slots[2 * slot + 1] !== 0) slot = (slot + 1) & mask;
  slots[2 * slot] = hash;
  slots[2 * slot + 1] = ordinalPlusOne;
}

function resized(slots: Uint32Array, size: number): Uint32Array {
  const larger = new Uint32Array(size);
  for (let i = 0; i < slots.length; i += 2) {
    if (slots[i + 1] !== 0) place(larger, slots[i]!, slots[i + 1]!);
  }
  return larger;
}

/** Empties a slot and moves later pairs of the run back, so that every probe still finds them. */
function closeGap(slots: Uint32Array, slot: number): void {
  const mask = (slots.length >>> 1) - 1;
  let gap = slot;
  let at = slot;
  for (;;) {
    at = (at + 1) & mask;
    if (slots[2 * at + 1] === 0) break;
    const home = slots[2 * at]! & mask;
    // The pair may move into the gap when its home slot does not lie between gap and itself.
    if (((at - home) & mask) >= ((at - gap) & mask)) {
      slots[2 * gap] = slots[2 * at]!;
      slots[2 * gap + 1] = slots[2 * at + 1]!;
      gap = at;
    }
  }
  slots[2 * gap] = 0;
  slots[2 * gap + 1] = 0;
}
