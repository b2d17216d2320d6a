/**
 * An etcd as the operator sees it: members with data on volumes, a quorum or none, pods that start
 * only with what they find. It refuses what etcd refuses, and remembers when a removal would have
 * taken the quorum away.
 */
import { TsdbError } from '#lib/errors.ts';
import {
  type EtcdAdmin,
  type EtcdAlarm,
  type EtcdMember,
  type EtcdView,
  noSpaceAlarm,
} from './etcd_admin.ts';

interface Member {
  readonly id: string;
  name: string;
  readonly peerUrl: string;
  isLearner: boolean;
}

/** A pod that runs, with its volume and what its configuration says. */
export interface EtcdPod {
  readonly name: string;
  readonly claimUid: string;
  readonly peerUrls: ReadonlyMap<string, string>;
  readonly state: string;
}

export class FakeEtcd implements EtcdAdmin {
  readonly #members: Member[] = [];
  /** Member that a volume has the data of. */
  readonly #dataOf = new Map<string, string>();
  #running = new Map<string, Member>();
  #leaderId = '';
  #ids = 0;
  /** Calls that change something, in order. */
  readonly calls: string[] = [];
  beforeCall: (call: string) => void = (_call: string): void => {};
  /** Pods that started without data as a member that had some, in order. */
  readonly amnesiacs: string[] = [];
  /** What nobody may ask for; null when nobody did. */
  violation: string | null = null;
  alarms: EtcdAlarm[] = [];
  /** Of `dbBytesInUse`, those of former values. */
  dbBytesOfHistory = 0;
  dbBytes: Record<string, number> = {};
  dbBytesInUse = 1024;
  version = '3.6.7';

  /** Starts what can start of these, and ends all others. */
  run(pods: readonly EtcdPod[]): void {
    const before = this.#running;
    this.#running = new Map();
    for (const pod of pods) {
      const member = before.get(pod.name) ?? this.#startable(pod);
      // Who was removed ends.
      const isThere = member !== undefined && this.#members.includes(member);
      if (!isThere) continue;
      member.name = pod.name;
      this.#dataOf.set(pod.claimUid, member.id);
      this.#running.set(pod.name, member);
    }
    const running = [...this.#running.values()].filter(({ isLearner }) => !isLearner);
    if (!running.some(({ id }) => id === this.#leaderId)) this.#leaderId = running[0]?.id ?? '';
  }

  #startable(pod: EtcdPod): Member | undefined {
    const data = this.#dataOf.get(pod.claimUid);
    if (data !== undefined) return this.#members.find(({ id }) => id === data);
    if (pod.state === 'new' && this.#members.length === 0) {
      for (const peerUrl of pod.peerUrls.values()) this.#add(peerUrl, false);
    }
    const peerUrl = pod.peerUrls.get(pod.name);
    const member = this.#members.find((one) => one.peerUrl === peerUrl);
    // It has its data elsewhere, and votes without them.
    if (member !== undefined && member.name !== '') this.amnesiacs.push(pod.name);
    return member;
  }

  #add(peerUrl: string, isLearner: boolean): void {
    this.#members.push({ id: String(++this.#ids), name: '', peerUrl, isLearner });
  }

  isRunning(pod: string): boolean {
    return this.#running.has(pod);
  }

  get hasQuorum(): boolean {
    const voters = this.#members.filter(({ isLearner }) => !isLearner);
    return voters.length > 0 && this.#answering(voters) > voters.length / 2;
  }

  #answering(members: readonly Member[]): number {
    return members.filter(({ name }) => this.#running.has(name)).length;
  }

  /** Names of all; '' of those that have not started. */
  get members(): string[] {
    return this.#members.map(({ name }) => name);
  }

  /** Names of those that vote. */
  get voters(): string[] {
    return this.#members
      .filter(({ isLearner }) => !isLearner)
      .map(({ name }) => name)
      .sort();
  }

  /** Who is a member now raises an alarm. */
  raise(kind: string, pod: string): void {
    this.alarms = [...this.alarms, { memberId: this.#running.get(pod)!.id, kind }];
  }

  lead(pod: string): void {
    this.#leaderId = this.#running.get(pod)!.id;
  }

  get leader(): string {
    return this.#members.find(({ id }) => id === this.#leaderId)?.name ?? '';
  }

  view(): Promise<EtcdView> {
    if (!this.hasQuorum) return Promise.resolve({ reachable: false, problem: 'no leader' });
    const members = this.#members.map((member): EtcdMember => {
      const { id, name, peerUrl, isLearner } = member;
      const state = this.#running.has(name)
        ? {
            version: this.version,
            isLeader: id === this.#leaderId,
            dbBytes: this.dbBytes[name] ?? 1024,
            dbBytesInUse: this.dbBytesInUse,
          }
        : null;
      return { id, name, peerUrl, isLearner, state };
    });
    const isFull = this.alarms.some(({ kind }) => kind === noSpaceAlarm);
    const compactableRevision = isFull && this.dbBytesOfHistory > 0 ? '17' : null;
    return Promise.resolve({ reachable: true, members, alarms: this.alarms, compactableRevision });
  }

  #call(text: string): void {
    if (!this.hasQuorum) throw new TsdbError('UNAVAILABLE', 'etcd has no leader');
    this.beforeCall(text);
    this.calls.push(text);
  }

  addLearner(peerUrl: string): Promise<void> {
    this.#call(`add ${podOf(peerUrl)}`);
    if (this.#members.some((member) => member.isLearner)) {
      throw new TsdbError('BAD_REQUEST', 'too many learner members in cluster');
    }
    if (this.#members.some((member) => member.peerUrl === peerUrl)) {
      throw new TsdbError('BAD_REQUEST', 'Peer URLs already exists');
    }
    this.#add(peerUrl, true);
    return Promise.resolve();
  }

  promote(memberId: string): Promise<void> {
    const member = this.#memberOf(memberId);
    this.#call(`promote ${member.name}`);
    if (!this.#running.has(member.name)) {
      throw new TsdbError('BAD_REQUEST', 'can only promote a learner member which is in sync');
    }
    member.isLearner = false;
    return Promise.resolve();
  }

  remove(memberId: string): Promise<void> {
    const member = this.#memberOf(memberId);
    this.#call(`remove ${member.name === '' ? podOf(member.peerUrl) : member.name}`);
    const left = this.#members.filter((other) => !other.isLearner && other !== member);
    if (!member.isLearner && this.#answering(left) <= left.length / 2) {
      this.violation = `${member.name} is removed, and what is left has no quorum`;
      throw new Error(this.violation);
    }
    this.#members.splice(this.#members.indexOf(member), 1);
    return Promise.resolve();
  }

  moveLeader(leader: string, toMemberId: string): Promise<void> {
    this.#call(`move leader from ${leader} to ${this.#memberOf(toMemberId).name}`);
    this.#leaderId = toMemberId;
    return Promise.resolve();
  }

  defragment(pod: string): Promise<void> {
    this.#call(`defragment ${pod}`);
    this.dbBytes[pod] = this.dbBytesInUse;
    return Promise.resolve();
  }

  compact(revision: string): Promise<void> {
    this.#call(`compact ${revision}`);
    this.dbBytesInUse -= this.dbBytesOfHistory;
    this.dbBytesOfHistory = 0;
    return Promise.resolve();
  }

  disarm({ memberId, kind }: EtcdAlarm): Promise<void> {
    this.#call(`disarm ${kind}`);
    this.alarms = this.alarms.filter((one) => one.memberId !== memberId || one.kind !== kind);
    return Promise.resolve();
  }

  #memberOf(id: string): Member {
    const member = this.#members.find((one) => one.id === id);
    if (member === undefined) throw new TsdbError('BAD_REQUEST', 'member not found');
    return member;
  }

  /** A volume has the data of one member, the only one. */
  restore(claimUid: string, peerUrl: string): void {
    this.forget();
    this.#add(peerUrl, false);
    this.#dataOf.set(claimUid, this.#members[0]!.id);
  }

  /** Everybody forgets everything, as when all volumes are lost. */
  forget(): void {
    this.#members.length = 0;
    this.#running.clear();
  }
}

const podOf = (peerUrl: string): string => /\/\/([^.]+)\./.exec(peerUrl)?.[1] ?? peerUrl;
