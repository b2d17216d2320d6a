/**
 * Leases and the keys they hold. Pure: the time comes in as milliseconds of a clock that never runs
 * back.
 */
import { assert } from '#lib/assert.ts';
import { type Ending, ExpiryHeap } from './expiry_heap.ts';

interface Lease extends Ending {
  readonly ttlSeconds: number;
  readonly keys: Set<string>;
}

export class Leases {
  readonly #byId = new Map<bigint, Lease>();
  readonly #byExpiry = new ExpiryHeap<Lease>();

  get count(): number {
    return this.#byId.size;
  }

  has(id: bigint): boolean {
    return this.#byId.has(id);
  }

  /** In no order that means anything. */
  ids(): bigint[] {
    return [...this.#byId.keys()];
  }

  /** The id must be free. */
  grant(id: bigint, ttlSeconds: number, nowMillis: number): void {
    assert(!this.#byId.has(id), 'a lease is granted once');
    const expiryMillis = nowMillis + ttlSeconds * 1000;
    const lease: Lease = { id, ttlSeconds, expiryMillis, place: 0, keys: new Set() };
    this.#byId.set(id, lease);
    this.#byExpiry.add(lease);
  }

  /** @returns the keys it held, sorted */
  remove(id: bigint): string[] {
    const lease = this.#byId.get(id);
    if (lease === undefined) return [];
    this.#byId.delete(id);
    this.#byExpiry.remove(lease);
    return [...lease.keys].sort();
  }

  /** @returns the granted seconds, or null when there is no such lease or its time is over */
  renew(id: bigint, nowMillis: number): number | null {
    const lease = this.#byId.get(id);
    if (lease === undefined || lease.expiryMillis <= nowMillis) return null;
    lease.expiryMillis = nowMillis + lease.ttlSeconds * 1000;
    this.#byExpiry.moved(lease);
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

  /** In no order that means anything. */
  keysOf(id: bigint): string[] {
    return [...(this.#byId.get(id)?.keys ?? [])];
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

  /** The lease whose time has been over for longest, or null. */
  expired(nowMillis: number): bigint | null {
    const { first } = this.#byExpiry;
    return first !== undefined && first.expiryMillis <= nowMillis ? first.id : null;
  }
}
