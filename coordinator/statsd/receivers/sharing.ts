/**
 * Series of statsd over several coordinators: each line goes to the one that keeps its series, by receivers that all know
 * (receivers.ts). They change at the end of a window of flushes, so that all that one coordinator counted of a series is before
 * what the next one counts. Of a coordinator that is away others hold lines until they keep its series themselves.
 */
import type { Env } from '#lib/env/env.ts';
import { connectGrpc, type GrpcClient } from '#lib/env/grpc.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';
import type { CounterMetric } from '#lib/metrics.ts';
import type { Membership } from './membership.ts';
import { Outgoing, type WaitingRoom } from './outgoing.ts';
import { hashOf, isSame, membersAt, ownerOf } from './receivers.ts';
import {
  decodeTakeRequest,
  decodeTakeResponse,
  encodeTakeRequest,
  encodeTakeResponse,
  type TakeRequest,
  takePath,
} from './wire.ts';

/** Of lines that wait for other coordinators. */
const waitingBytesMax: number = 64 << 20;
const answerBytesMax: number = 1 << 20;
const takeMillisMax = 5_000;
/** Of what others say while the store is away. */
const askMillisMax = 1_000;
/** Senders whose batches are told apart. */
const sendersMax = 1_000;
const nothing = { sender: 0n, sequence: 0n, lines: new Uint8Array(0) };

export interface SharingMetrics {
  /** Lines that went to other coordinators. */
  readonly forwardedLines: CounterMetric;
  /** Lines for which there was no room while a coordinator was away. */
  readonly lostLines: CounterMetric;
}

export interface SharingOptions {
  readonly membership: Membership;
  /** As members call this one. */
  readonly address: string;
  readonly env: Env;
  readonly metrics: SharingMetrics;
  /** Others keep series from now on: what `ownerOf` said holds no more. */
  readonly onChange: (change: SharingChange) => void;
  /** Lines are to be taken by who keeps their series. */
  readonly onLines: (lines: Uint8Array) => Promise<void>;
}

/** What changed at the end of a window. */
export interface SharingChange {
  /** Series that were kept here may have been kept by others since. */
  readonly isUnsure: boolean;
  /** Others keep them from then on, in Unix milliseconds. */
  readonly fromMillis: number;
}

interface Other {
  readonly client: GrpcClient;
  readonly outgoing: Outgoing;
}

export class Sharing {
  readonly #options: SharingOptions;
  readonly #room: WaitingRoom = { bytesMax: waitingBytesMax, bytes: 0 };
  readonly #others = new Map<string, Other>();
  /** Number of the last batch of each; a coordinator is another one whenever it begins to send here. */
  readonly #senders = new Map<bigint, bigint>();
  readonly #stop = new AbortController();
  readonly #end = new AbortController();
  /** Of the receivers that hold here. */
  #version = 0;
  #members: readonly string[] = [];
  #seeds = new Int32Array(0);
  #holds = Promise.withResolvers<void>();

  constructor(options: SharingOptions) {
    this.#options = options;
  }

  get memberCount(): number {
    return this.#members.length;
  }

  get waitingBytes(): number {
    return this.#room.bytes;
  }

  /** Who keeps a series: the number of a member, for `forward`; null when it is kept here. @param hash of `hashOf` */
  ownerOf(hash: number): number | null {
    const owner = ownerOf(hash, this.#seeds);
    return this.#members[owner] === this.#options.address ? null : owner;
  }

  /** @param bytes with a line in [from, end) */
  forward(member: number, bytes: Uint8Array, from: number, end: number): void {
    const { outgoing } = this.#otherOf(this.#members[member]!);
    if (!outgoing.add(bytes, from, end)) this.#options.metrics.lostLines.increase(1);
  }

  /** Before the first line. @throws {unknown} the signal's reason */
  async begin(signal: AbortSignal): Promise<void> {
    const { membership, env } = this.#options;
    await membership.whenKnown(signal);
    this.#change(env.clock.nowMillis());
  }

  /**
   * At the end of a window.
   * @returns null when the same coordinators as before keep series
   */
  async atBoundary(boundaryMillis: number): Promise<SharingChange | null> {
    const { membership } = this.#options;
    const { signal } = this.#stop;
    if (!(await membership.refresh(signal))) await this.#askOthers(signal);
    return this.#change(boundaryMillis);
  }

  #change(millis: number): SharingChange | null {
    const known = this.#options.membership.known!;
    const { fromMillis } = known;
    const isNewest = millis >= fromMillis;
    const version = isNewest ? known.version : known.version - 1;
    if (version <= this.#version) return null;
    const change = {
      isUnsure: version > this.#version + 1,
      fromMillis: isNewest ? fromMillis : 0,
    };
    const members = membersAt(known, millis);
    const before = this.#members;
    this.#version = version;
    this.#members = members;
    this.#seeds = Int32Array.from(members, hashOf);
    const isChanged = change.isUnsure || !isSame(members, before);
    if (isChanged) this.#options.onChange(change);
    for (const [address, other] of this.#others) {
      if (!members.includes(address)) void this.#letGo(address, other);
    }
    this.#holds.resolve();
    this.#holds = Promise.withResolvers<void>();
    return isChanged ? change : null;
  }

  /** What was to go to who keeps nothing any more goes to who does now. */
  async #letGo(address: string, { client, outgoing }: Other): Promise<void> {
    this.#others.delete(address);
    for (const lines of await outgoing.takeBack(this.#end.signal))
      await this.#options.onLines(lines);
    client[Symbol.dispose]();
  }

  #otherOf(address: string): Other {
    let other = this.#others.get(address);
    if (other === undefined) {
      const { env, metrics } = this.#options;
      const client = connectGrpc({ target: address, answerBytesMax });
      // Its batches are counted anew when it comes again: by another one they are not taken for those of before.
      const sender = new DataView(env.random.bytes(8).buffer).getBigUint64(0);
      const outgoing = new Outgoing({
        clock: env.clock,
        room: this.#room,
        send: (lines, sequence, signal) =>
          this.#send(client, { sender, sequence, lines }, takeMillisMax, signal),
        onSent: (lineCount) => metrics.forwardedLines.increase(lineCount),
      });
      other = { client, outgoing };
      this.#others.set(address, other);
    }
    return other;
  }

  async #send(
    client: GrpcClient,
    batch: Pick<TakeRequest, 'sender' | 'sequence' | 'lines'>,
    timeoutMillis: number,
    signal: AbortSignal,
  ): Promise<void> {
    const { membership } = this.#options;
    const request = encodeTakeRequest({
      ...batch,
      receivers: membership.known,
      version: this.#version,
    });
    membership.learn(
      decodeTakeResponse(await client.unary(takePath, request, signal, { timeoutMillis })),
    );
  }

  /** Whether they know newer receivers than this one. */
  async #askOthers(signal: AbortSignal): Promise<void> {
    const { address } = this.#options;
    const others = this.#members.filter((member) => member !== address);
    await Promise.all(
      others.map((member) =>
        this.#send(this.#otherOf(member).client, nothing, askMillisMax, signal).catch(
          (error: unknown) => {
            if (!(error instanceof TsdbError) && !signal.aborted) throw error;
          },
        ),
      ),
    );
  }

  /** @returns the newest receivers */
  async take(bytes: Uint8Array): Promise<Uint8Array> {
    await this.#take(decodeTakeRequest(bytes));
    return encodeTakeResponse(this.#options.membership.known);
  }

  async #take({ receivers, sender, sequence, lines, version }: TakeRequest): Promise<void> {
    const { membership, env, onLines } = this.#options;
    membership.learn(receivers);
    if (lines.length === 0) return;
    const until = env.clock.deadline(takeMillisMax / 2, this.#stop.signal);
    // By older receivers they could go back and forth.
    while (this.#version < version) await untilAborted(this.#holds.promise, until);
    this.#stop.signal.throwIfAborted();
    if (sequence <= (this.#senders.get(sender) ?? 0n)) return;
    this.#senders.delete(sender);
    this.#senders.set(sender, sequence);
    if (this.#senders.size > sendersMax) this.#senders.delete(this.#senders.keys().next().value!);
    await onLines(lines);
  }

  /** Nothing of others is taken any more: they keep it until they know who does. */
  stopTaking(): void {
    this.#stop.abort(new TsdbError('UNAVAILABLE', 'the coordinator stops'));
  }

  /** Sends what it has. Resolves when all is sent, or the signal aborts: the rest is lost. */
  async end(signal: AbortSignal): Promise<void> {
    const all = [...this.#others.values()];
    const sent = Promise.all(all.map(({ outgoing }) => outgoing.sent()));
    await untilAborted(sent, signal).catch(() => {});
    this.#end.abort();
    for (const { client, outgoing } of all) {
      const lost = await outgoing.takeBack(signal);
      for (const lines of lost) this.#options.metrics.lostLines.increase(lineCount(lines));
      client[Symbol.dispose]();
    }
  }
}

function lineCount(lines: Uint8Array): number {
  let count = 0;
  for (const byte of lines) if (byte === 0x0a) count++;
  return count;
}
