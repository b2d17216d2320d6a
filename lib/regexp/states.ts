/**
 * The states that engines keep as they meet them, up to eight megabytes each: all together have one limit, beyond
 * which those that grew longest ago lose theirs, and make them again when they are needed.
 */

/** Of all states, and of the programs that are held because of them. */
export const heldBytesMax: number = 128 << 20;

export interface StatesOwner {
  /** Besides the states. */
  readonly memoryBytes: number;
  readonly statesBytes: number;
  dropStates(): void;
}

export class HeldStates {
  /** With what was counted of each; those that grew longest ago first. */
  readonly #bytesOf = new Map<StatesOwner, number>();
  #bytes = 0;
  readonly #bytesMax: number;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** After each change of the states of one. */
  note(owner: StatesOwner): void {
    this.#forget(owner);
    const bytes = owner.memoryBytes + owner.statesBytes;
    this.#bytesOf.set(owner, bytes);
    this.#bytes += bytes;
    for (const oldest of this.#bytesOf.keys()) {
      if (this.#bytes <= this.#bytesMax || oldest === owner) return;
      this.#forget(oldest);
      oldest.dropStates();
    }
  }

  #forget(owner: StatesOwner): void {
    this.#bytes -= this.#bytesOf.get(owner) ?? 0;
    this.#bytesOf.delete(owner);
  }
}

export const heldStates: HeldStates = new HeldStates(heldBytesMax);
