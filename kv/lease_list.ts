/**
 * The list of all leases, of which there may be a hundred thousand. One is made at a time, for all who
 * asked before it was begun: so what a list takes of time and memory does not grow with those who ask.
 */
import type { Clock } from '#lib/env/env.ts';
import type { ProtoCodec, ProtoMessage } from '#lib/env/proto.ts';
import { sortPaced } from '#lib/turns/paced.ts';
import { Turns } from '#lib/turns/turns.ts';
import { encodedInParts } from './messages.ts';
import type { Store } from './store.ts';

/** Of a lease that is encoded: lib/turns/turns.ts. */
const leaseUnits = 100;

export interface LeaseListOptions {
  readonly store: Pick<Store, 'perform'>;
  readonly clock: Clock;
  /** Of an answer that is made now. */
  readonly header: () => ProtoMessage;
}

export class LeaseList {
  readonly #options: LeaseListOptions;
  /** Over when the list is made that is being made. */
  #underWay: Promise<void> = Promise.resolve();
  /** The one after it, which is not begun. */
  #next: Promise<Uint8Array> | null = null;

  constructor(options: LeaseListOptions) {
    this.#options = options;
  }

  /** @returns the answer, which callers share; sorted by id */
  encoded(codec: ProtoCodec): Promise<Uint8Array> {
    this.#next ??= this.#makeNext(codec);
    return this.#next;
  }

  async #makeNext(codec: ProtoCodec): Promise<Uint8Array> {
    await this.#underWay;
    // Who asks from here on may know of leases that it does not have.
    this.#next = null;
    const made = this.#make(codec);
    this.#underWay = made.then(
      () => {},
      () => {},
    );
    return made;
  }

  async #make(codec: ProtoCodec): Promise<Uint8Array> {
    const { store, clock, header } = this.#options;
    const work = Turns.of(clock).begin(new AbortController().signal, 'kv');
    const ids = await work.outside(store.perform((core) => core.leaseIds()));
    const sorted = await sortPaced(ids, compareIds, work);
    const leasesOf = (some: readonly bigint[]) => ({ leases: some.map((id) => ({ id })) });
    return encodedInParts(codec, { header: header() }, sorted, leasesOf, work, leaseUnits);
  }
}

function compareIds(left: bigint, right: bigint): number {
  return left < right ? -1 : left > right ? 1 : 0;
}
