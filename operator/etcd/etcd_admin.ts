/**
 * Members of a cluster's own etcd, as etcd itself says: its v3 API by JSON, which needs no client.
 */
import type { Env } from '#lib/env/env.ts';
import { httpRequest } from '#lib/env/http.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';

export interface EtcdMember {
  readonly id: string;
  /** That of its pod; '' of one that was added and has never started. */
  readonly name: string;
  readonly peerUrl: string;
  readonly isLearner: boolean;
  /** What it says of itself; null when it does not answer. */
  readonly state: EtcdMemberState | null;
}

export interface EtcdMemberState {
  readonly version: string;
  readonly isLeader: boolean;
  /** Of its file, and of what is in it. */
  readonly dbBytes: number;
  readonly dbBytesInUse: number;
}

/** That a member is in a state in which etcd takes no writes, or nothing at all. */
export interface EtcdAlarm {
  /** Who has raised it; it stays when that member goes. */
  readonly memberId: string;
  /** Such as NOSPACE. */
  readonly kind: string;
}

/** What a quorum of members says, or why none does. */
export type EtcdView =
  | { readonly reachable: false; readonly problem: string }
  | {
      readonly reachable: true;
      readonly members: readonly EtcdMember[];
      readonly alarms: readonly EtcdAlarm[];
      /** Of an etcd that is full: its revision, when it has values of before; else null. */
      readonly compactableRevision: string | null;
    };

/** The calls that the operator makes; a fake one has them too. */
export interface EtcdAdmin {
  /** @param pods names of pods that may be members */
  view(pods: readonly string[], signal: AbortSignal): Promise<EtcdView>;
  /** A member that does not vote until it is promoted. */
  addLearner(peerUrl: string, signal: AbortSignal): Promise<void>;
  /** @throws {TsdbError} BAD_REQUEST while it has not caught up */
  promote(memberId: string, signal: AbortSignal): Promise<void>;
  remove(memberId: string, signal: AbortSignal): Promise<void>;
  /** @param leader name of the pod that leads now */
  moveLeader(leader: string, toMemberId: string, signal: AbortSignal): Promise<void>;
  /** The member of this pod gives back room, and answers nothing meanwhile. */
  defragment(pod: string, signal: AbortSignal): Promise<void>;
  disarm(alarm: EtcdAlarm, signal: AbortSignal): Promise<void>;
  /** Former values of keys go, those of before this revision. */
  compact(revision: string, signal: AbortSignal): Promise<void>;
}

/** It has no room for another write. */
export const noSpaceAlarm = 'NOSPACE';
/** What is asked has short answers; the image that gives them may be anybody's. */
const answerBytesMax = 256 * 1024;
/** An etcd with more is not looked at: we have five, and a person may add some. */
const membersMax = 16;
const readMillisMax = 3_000;
const writeMillisMax = 10_000;
/** A database of 2 GiB, the quota, is copied or walked meanwhile. */
const roomMillisMax = 120_000;

type Json = Readonly<Record<string, unknown>>;

/** PEM texts by which members that speak TLS know the operator, and it them. */
export interface EtcdCertificates {
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export class EtcdClient implements EtcdAdmin {
  readonly #env: Env;
  /** `http://host:port`, or https, of a pod's member. */
  readonly #urlOf: (pod: string) => string;
  readonly #certificates: EtcdCertificates | null;
  /** Pods that answered last. */
  #answering: readonly string[] = [];

  constructor(
    env: Env,
    urlOf: (pod: string) => string,
    certificates: EtcdCertificates | null = null,
  ) {
    this.#env = env;
    this.#certificates = certificates;
    this.#urlOf = urlOf;
  }

  async view(pods: readonly string[], signal: AbortSignal): Promise<EtcdView> {
    // A member without a quorum knows only what was.
    const lists = await Promise.all(
      pods.map((pod) =>
        this.#call(pod, '/v3/cluster/member/list', { linearizable: true }, readMillisMax, signal)
          .then((answer) => ({ pod, answer, problem: '' }))
          .catch((error: unknown) => ({ pod, answer: null, problem: messageOf(error) })),
      ),
    );
    signal.throwIfAborted();
    const answers = lists.filter(({ answer }) => answer !== null);
    this.#answering = answers.map(({ pod }) => pod);
    const list = answers[0]?.answer;
    if (list === undefined || list === null) {
      return { reachable: false, problem: problemsText(lists) };
    }
    const members = (list['members'] ?? []) as readonly Json[];
    if (members.length > membersMax) {
      const problem = `etcd has ${members.length} members, and at most ${membersMax} are looked at`;
      return { reachable: false, problem };
    }
    const [alarmed, ...described] = await Promise.all([
      this.#alarmed(signal),
      ...members.map((member) => this.#described(member, pods, signal)),
    ]);
    return { reachable: true, members: described, ...alarmed };
  }

  async #alarmed(
    signal: AbortSignal,
  ): Promise<Pick<EtcdView & { reachable: true }, 'alarms' | 'compactableRevision'>> {
    const { alarms, revision } = await this.#alarms(signal);
    const isFull = alarms.some(({ kind }) => kind === noSpaceAlarm);
    const isCompactable = isFull && (await this.#hasHistory(revision, signal));
    return { alarms, compactableRevision: isCompactable ? revision : null };
  }

  /** Whether what was before this revision can still be asked for. */
  async #hasHistory(revision: string, signal: AbortSignal): Promise<boolean> {
    const before = BigInt(revision === '' ? 0 : revision) - 1n;
    if (before < 1n) return false;
    const body = { key: Buffer.of(0).toString('base64'), revision: String(before) };
    try {
      await this.#askAny('/v3/kv/range', body, signal);
      return true;
    } catch (error) {
      if (signal.aborted) throw error;
      // Or nobody says it now.
      return false;
    }
  }

  async #described(
    member: Json,
    pods: readonly string[],
    signal: AbortSignal,
  ): Promise<EtcdMember> {
    const name = textOf(member['name']);
    // A name is what etcd says: one that is none of a pod of ours may lead anywhere.
    const isAsked = pods.includes(name);
    return {
      id: textOf(member['ID']),
      name,
      peerUrl: textOf((member['peerURLs'] as readonly unknown[] | undefined)?.[0]),
      isLearner: member['isLearner'] === true,
      state: isAsked ? await this.#state(name, textOf(member['ID']), signal) : null,
    };
  }

  async #state(pod: string, id: string, signal: AbortSignal): Promise<EtcdMemberState | null> {
    try {
      const path = '/v3/maintenance/status';
      const status = await this.#call(pod, path, {}, readMillisMax, signal);
      const { member_id: answering } = (status['header'] ?? {}) as Json;
      // The pod runs on the data of another member, perhaps of another etcd.
      if (answering !== undefined && textOf(answering) !== id) return null;
      return {
        version: textOf(status['version']),
        isLeader: textOf(status['leader']) === id,
        dbBytes: Number(status['dbSize'] ?? 0),
        dbBytesInUse: Number(status['dbSizeInUse'] ?? 0),
      };
    } catch (error) {
      if (signal.aborted) throw error;
      return null;
    }
  }

  async #alarms(
    signal: AbortSignal,
  ): Promise<{ readonly alarms: readonly EtcdAlarm[]; readonly revision: string }> {
    const answer = await this.#askAny('/v3/maintenance/alarm', { action: 'GET' }, signal);
    const raised = (answer['alarms'] ?? []) as readonly Json[];
    const alarms = raised.map(({ memberID, alarm }) => ({
      memberId: textOf(memberID),
      kind: textOf(alarm),
    }));
    return { alarms, revision: textOf((answer['header'] as Json | undefined)?.['revision']) };
  }

  async addLearner(peerUrl: string, signal: AbortSignal): Promise<void> {
    await this.#ask('/v3/cluster/member/add', { peerURLs: [peerUrl], isLearner: true }, signal);
  }

  async promote(memberId: string, signal: AbortSignal): Promise<void> {
    await this.#ask('/v3/cluster/member/promote', { ID: memberId }, signal);
  }

  async remove(memberId: string, signal: AbortSignal): Promise<void> {
    await this.#ask('/v3/cluster/member/remove', { ID: memberId }, signal);
  }

  async moveLeader(leader: string, toMemberId: string, signal: AbortSignal): Promise<void> {
    const path = '/v3/maintenance/transfer-leadership';
    await this.#call(leader, path, { targetID: toMemberId }, writeMillisMax, signal);
  }

  async defragment(pod: string, signal: AbortSignal): Promise<void> {
    await this.#call(pod, '/v3/maintenance/defragment', {}, roomMillisMax, signal);
  }

  async disarm({ memberId, kind }: EtcdAlarm, signal: AbortSignal): Promise<void> {
    // By its member: for etcd 0 is no other member than any other number, and it would answer 200.
    const body = { action: 'DEACTIVATE', memberID: memberId, alarm: kind };
    await this.#ask('/v3/maintenance/alarm', body, signal);
  }

  async compact(revision: string, signal: AbortSignal): Promise<void> {
    // Physical: answered when they are gone, so that what is in use is known then.
    const body = { revision, physical: true };
    await this.#ask('/v3/kv/compaction', body, signal, roomMillisMax);
  }

  /** What each of the members that answered may say: one that is busy, or ends, keeps nothing from being known. */
  async #askAny(path: string, body: Json, signal: AbortSignal): Promise<Json> {
    const [first, ...others] = this.#answering;
    if (first === undefined) throw new TsdbError('UNAVAILABLE', 'no member of etcd answers');
    let pod = first;
    for (;;) {
      try {
        return await this.#call(pod, path, body, writeMillisMax, signal);
      } catch (error) {
        const next = others.shift();
        const isRefused = error instanceof TsdbError && error.code === 'BAD_REQUEST';
        if (signal.aborted || isRefused || next === undefined) throw error;
        pod = next;
      }
    }
  }

  /** Of a member that answered when they were looked at. */
  async #ask(
    path: string,
    body: Json,
    signal: AbortSignal,
    millisMax: number = writeMillisMax,
  ): Promise<Json> {
    const [pod] = this.#answering;
    if (pod === undefined) throw new TsdbError('UNAVAILABLE', 'no member of etcd answers');
    return this.#call(pod, path, body, millisMax, signal);
  }

  /** @throws {TsdbError} BAD_REQUEST with what etcd says, UNAVAILABLE */
  async #call(
    pod: string,
    path: string,
    body: Json,
    millisMax: number,
    signal: AbortSignal,
  ): Promise<Json> {
    const deadline = this.#env.clock.deadline(millisMax, signal);
    const request = {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      responseBytesMax: answerBytesMax,
      ...(this.#certificates === null ? {} : { tls: this.#certificates }),
    };
    const answer = await httpRequest(this.#urlOf(pod) + path, request, deadline);
    const text = Buffer.from(answer.body).toString();
    if (answer.status < 300) return JSON.parse(text === '' ? '{}' : text) as Json;
    const isRefused = answer.status < 500 && answer.status !== 429;
    const code = isRefused ? 'BAD_REQUEST' : 'UNAVAILABLE';
    throw new TsdbError(code, `etcd ${pod} ${path}: ${answer.status} ${messageIn(text)}`);
  }
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

function messageIn(text: string): string {
  try {
    const { message } = JSON.parse(text) as { readonly message?: string };
    return message ?? text.slice(0, 300);
  } catch {
    return text.slice(0, 300);
  }
}

/** Why nobody answers, each reason once: without the address, which is that of the pod that is named. */
export function problemsText(
  asked: readonly { readonly pod: string; readonly problem: string }[],
): string {
  if (asked.length === 0) return 'there is no pod';
  const short = (problem: string): string =>
    problem
      .replace(/^[A-Z]+ https?:\/\/\S+: /, '')
      .replace(/^getaddrinfo [A-Z_]+ \S+$/, 'no address yet')
      .replace(/^connect ECONNREFUSED \S+$/, 'connection refused');
  const byProblem = Map.groupBy(asked, ({ problem }) => short(problem));
  return [...byProblem]
    .map(([problem, of]) => `${of.map(({ pod }) => pod).join(', ')}: ${problem}`)
    .join('; ');
}
