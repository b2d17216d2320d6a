/**
 * Leases and the keys they hold. Pure: the time comes in as milliseconds of a clock that never runs
 * back.
 */
import { assert } from '#lib/assert.ts';

interface Lease {
  readonly id: bigint;
  readonly ttlSeconds: number;
  expiryMillis: number;
  readonly keys: Set<string>;
}

export class Leases {
  readonly #byId = new Map<bigint, Lease>();

  get count(): number {
    return this.#byId.size;
  }

  has(id: bigint): boolean {
    return this.#byId.has(id);
  }

  /** Sorted by id. */
  ids(): bigint[] {
    return [...this.#byId.keys()].sort((left, right) => (left < right ? -1 : left > right ? 1 : 0));
  }

  /** The id must be free. */
  grant(id: bigint, ttlSeconds: number, nowMillis: number): void {
    assert(!this.#byId.has(id), 'a lease is granted once');
    const expiryMillis = nowMillis + ttlSeconds * 1000;
    this.#byId.set(id, { id, ttlSeconds, expiryMillis, keys: new Set() });
  }

  /** @returns the keys it held, sorted */
  remove(id: bigint): string[] {
    const keys = this.keysOf(id);
    this.#byId.delete(id);
    return keys;
  }

  /** @returns the granted seconds, or null when there is no such lease or its time is over */
  renew(id: bigint, nowMillis: number): number | null {
    const lease = this.#byId.get(id);
    if (lease === undefined || lease.expiryMillis <= nowMillis) return null;
    lease.expiryMillis = nowMillis + lease.ttlSeconds * 1000;
    return lease.ttlSeconds;
  }

  ttlSecondsOf(id: bigint): number {
    return this.#byId.get(id)?.ttlSeconds ?? 0;
  }

  remainingSeconds(id: bigint, nowMillis: number): number {
    const lease = this.#byId.get(id);
    if (lease === undefined) return 0;
    return Math.max(0, Math.floor((lease.expiryMillis - nowMillis) / 1000));
  }

  keysOf(id: bigint): string[] {
    return [...(this.#byId.get(id)?.keys ?? [])].sort();
  }

  keyCountOf(id: bigint): number {
    return this.#byId.get(id)?.keys.size ?? 0;
  }

  attach(id: bigint, key: string): void {
    this.#byId.get(id)?.keys.add(key);
  }

  detach(id: bigint, key: string): void {
    this.#byId.get(id)?.keys.delete(key);
  }

  /** Sorted by id. */
  expired(nowMillis: number): bigint[] {
    return this.ids().filter((id) => this.#byId.get(id)!.expiryMillis <= nowMillis);
  }
}
