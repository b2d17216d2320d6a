/**
 * The members of a cluster's own etcd: one comes or goes at a time, as a learner first, and only while
 * the others have a quorum. What is there is asked of etcd at each pass; nothing is remembered but
 * which volume a member had.
 */
import type { Action } from '../action/action.ts';
import { etcdQuotaBytes } from '../desired/etcd.ts';
import { etcdReplicasOf, replaceAfterMillis } from '../resource/tsdb_cluster.ts';
import { restoreJobName } from '../desired/etcd_snapshots.ts';
import {
  type EtcdAlarm,
  type EtcdMember,
  type EtcdView,
  noSpaceAlarm,
} from '../etcd/etcd_admin.ts';
import {
  claimUidOf,
  etcdHistory,
  isListed,
  memberPod,
  membersIn,
} from '../observe/etcd_members.ts';
import type { Observed } from '../observe/observe.ts';
import { podTrouble, withTroubles } from '../observe/pod_trouble.ts';
import {
  approvedRestore,
  approvedSnapshot,
  abandonedClaims,
  memberClaims,
  restoredSnapshot,
  restoreProgress,
} from '../observe/etcd_restore.ts';
import type { RecordedMember } from '../record/record.ts';
import { annotation } from '../resource/keys.ts';
import { Names } from '../resource/names.ts';
import type { KubeObject, StatefulSet } from '../resource/kube_objects.ts';
import { isCrashLooping, podReady } from '../resource/pod_state.ts';
import { doing, type Part, stalledBy, waitingFor } from '../part/part.ts';

/** A file that is smaller is not worth a pause. */
const defragmentBytesMin = 128 * 1024 * 1024;
/** Of the quota: with less room the next writes raise the alarm again. */
const fullRatioMin = 0.9;
/** Of members on new volumes, their image included. */
const startMillisMax = 120_000;
/** Of two gigabytes of former values, on a slow disk. */
const compactionMillisMax = 300_000;
/** How much larger than what is in it a file becomes before it gives back room. */
const defragmentRatioMin = 2;
/** The same of one that is as large as `fullRatioMin` lets it, or when etcd takes no writes. */
const defragmentFullRatioMin = 1.1;

/** @returns null when there is nothing to do and nothing to wait for */
export function etcdPart(observed: Observed): Part | null {
  const { cluster, etcd, statefulSets } = observed;
  const set = statefulSets.get(new Names(cluster).etcd);
  if (etcd === null || set === undefined) return null;
  return etcd.reachable
    ? membersPart(observed, etcd, set)
    : silentPart(observed, etcd.problem, set);
}

/** No quorum answers. */
function silentPart(observed: Observed, problem: string, set: StatefulSet): Part | null {
  const { cluster } = observed;
  const wanted = etcdReplicasOf(cluster);
  const history = etcdHistory(observed);
  const wish = approvedRestore(cluster);
  if (wish !== null && wish !== 'empty' && approvedSnapshot(cluster) === null) {
    const message = `${annotation.restoreEtcd}=${wish} is neither empty, latest nor the name of a snapshot`;
    return stalledBy('EtcdRestoreFailed', message);
  }
  if (history === 'fresh') {
    const snapshot = restoredSnapshot(observed);
    if (snapshot !== null) return restoringPart(observed, snapshot, set);
    const begun = begunRestore(observed, set);
    if (begun !== null) return begun;
    return set.spec.replicas === wanted
      ? waitingFor('EtcdStarting', `etcd has no quorum yet: ${problem}${troublesText(observed)}`)
      : scaling(set, wanted, 'Retain', 'EtcdStarting');
  }
  if (history === 'kept') {
    const needed = podsOf(
      observed,
      membersIn(observed.record).map(([pod]) => pod),
    );
    if ((set.spec.replicas ?? 1) < needed) {
      return scaling(set, needed, 'Retain', 'EtcdNoQuorum');
    }
    return crashingPart(observed) ?? awayPart(observed) ?? passedOver(observed, problem);
  }
  if (wish === null) return lostPart(observed);
  // What is left of the old members goes with their volumes; the record forgets them when all are gone.
  return endingPart(observed, set, null);
}

function lostPart(observed: Observed): Part {
  const { etcdSnapshots } = new Names(observed.cluster);
  const snapshots = hasSnapshots(observed)
    ? `, or =latest (or the name of a snapshot in ${etcdSnapshots}) to begin with what that has`
    : '';
  const message = `most volumes of etcd are lost: annotate ${annotation.restoreEtcd}=empty to begin with an empty one${snapshots}; it gets back what the nodes know. Nodes and coordinators that run go on by what they know: do not restart them`;
  return stalledBy('EtcdLost', message);
}

/** A person who asked for a snapshot has taken that back, or wants an empty etcd; null for nothing of that. */
function begunRestore(observed: Observed, set: StatefulSet): Part | null {
  const { record, cluster } = observed;
  const replicas = set.spec.replicas ?? 1;
  const filled = memberClaims(observed, null).filter(
    ({ metadata }) => metadata.annotations?.[annotation.restoredBy] !== undefined,
  );
  if (approvedRestore(cluster) === 'empty') {
    return filled.length === 0 ? null : endingPart(observed, set, null);
  }
  const isOwn = record !== null && record.clusterUid === cluster.metadata.uid;
  // Nothing of it is forgotten by an etcd that nobody has asked for.
  if (replicas === 0 && isOwn && record.placement !== null) return lostPart(observed);
  if (filled.length === 0 || replicas === 0) return null;
  return waitingFor('EtcdRestoring', `etcd starts from its snapshot${troublesText(observed)}`);
}

/** So many crash at each start that no quorum can come back by itself. */
function crashingPart(observed: Observed): Part | null {
  const recorded = membersIn(observed.record).map(([pod]) => pod);
  const crashing = recorded.filter((pod) => isBroken(observed, pod));
  if (recorded.length - crashing.length > recorded.length / 2) return null;
  const claims = crashing.map((pod) => `data-${pod}`).join(' ');
  const message = `members of etcd crash at each start, and no quorum is left: ${crashing.join(', ')}; look at their logs, and when their files are damaged delete pods and claims (${claims}), then annotate ${annotation.restoreEtcd}`;
  return stalledBy('EtcdCrashing', message);
}

/** Machines of so many are away, for as long as a node's is waited for, that no quorum comes back without them. */
function awayPart(observed: Observed): Part | null {
  const { cluster, record, awaySinceMillis, nowMillis } = observed;
  const waitMillis = replaceAfterMillis(cluster);
  if (waitMillis === null) return null;
  const recorded = membersIn(record).map(([pod]) => pod);
  const away = recorded.filter((pod) => {
    const since = awaySinceMillis.get(pod);
    return since !== undefined && nowMillis - since >= waitMillis;
  });
  if (recorded.length - away.length > recorded.length / 2) return null;
  const gone = away.sort();
  const volumes = gone.map((pod) => `pvc/data-${pod} pod/${pod}`).join(' ');
  const message = `no quorum of etcd is left without the machines that have the volumes of ${gone.join(', ')}: bring them back, or, when they are gone for good, kubectl delete ${volumes}; how etcd begins anew is said then. Nodes and coordinators that run go on by what they know: do not restart them`;
  return stalledBy('EtcdMachinesGone', message);
}

function passedOver(observed: Observed, problem: string): Part {
  const { cluster } = observed;
  const wish = approvedRestore(cluster);
  const unasked =
    wish === null ? '' : `; ${annotation.restoreEtcd}=${wish} is not done while it has its volumes`;
  const troubles = troublesText(observed);
  const isLosing = membersIn(observed.record).some(([pod]) => {
    const claim = observed.volumeClaims.find(({ metadata }) => metadata.name === `data-${pod}`);
    return claim === undefined || claim.metadata.deletionTimestamp !== undefined;
  });
  // What Kubernetes names may need a person, and so do volumes that go.
  const hope = troubles === '' && !isLosing ? ', and comes back by itself' : '';
  const message = `etcd has no quorum${hope}${unasked}: ${problem}${troubles}`;
  return waitingFor('EtcdNoQuorum', message);
}

/** What Kubernetes says of pods of etcd that do not run; empty when it says nothing. */
function troublesText(observed: Observed): string {
  const { cluster, pods } = observed;
  const names = new Names(cluster);
  const troubled = pods
    .filter((pod) => names.etcdOrdinal(pod.metadata.name) !== null && !podReady(pod))
    .filter((pod) => podTrouble(pod) !== null)
    .map(({ metadata }) => metadata.name)
    .sort();
  return troubled.length === 0 ? '' : `; ${withTroubles(troubled, observed)}`;
}

/**
 * All members go, with their volumes.
 * @param keptFor the job that a volume may have been made for
 */
function endingPart(observed: Observed, set: StatefulSet, keptFor: string | null): Part {
  if (set.spec.replicas !== 0) return scaling(set, 0, 'Delete', 'EtcdRestoring');
  // A set deletes the volumes of pods that it ends, not of those that it never came to make.
  return doing(
    abandonedClaims(observed, keptFor).map((object) => ({
      kind: 'delete',
      object,
      orphan: false,
    })),
    'EtcdRestoring',
    'the old members of etcd end',
  );
}

/** A first member is made from a snapshot; the others join it as ever. */
function restoringPart(observed: Observed, snapshot: string, set: StatefulSet): Part {
  if (!hasSnapshots(observed)) {
    const { etcdSnapshots } = new Names(observed.cluster);
    const message = `there is no volume ${etcdSnapshots} with snapshots of etcd: annotate ${annotation.restoreEtcd}=empty`;
    return stalledBy('EtcdRestoreFailed', message);
  }
  const jobName = restoreJobName(observed.cluster, snapshot);
  const progress = restoreProgress(observed, jobName);
  const replicas = set.spec.replicas ?? 1;
  const others = memberClaims(observed, jobName);
  // Members have run on these; those of another restore, which was not to be, are nobody's.
  const used = others.filter(
    ({ metadata }) => metadata.annotations?.[annotation.restoredBy] === undefined,
  );
  if (progress.state !== 'done' && used.length > 0) {
    const list = used.map(({ metadata }) => metadata.name).join(', ');
    if (isBeingMade(observed, used)) {
      const message = `etcd starts on volumes that have just been made, and nothing is restored over them: ${list}`;
      return waitingFor('EtcdStarting', message);
    }
    const message = `etcd has volumes, over which nothing is restored: delete them first, with their pods (${list})`;
    return stalledBy('EtcdRestoreFailed', message);
  }
  if (progress.state !== 'done' && replicas + others.length > 0) {
    return endingPart(observed, set, jobName);
  }
  switch (progress.state) {
    case 'running':
      return waitingFor('EtcdRestoring', `etcd is made from the snapshot ${snapshot}`);
    case 'failed': {
      const message = `the snapshot ${snapshot} of etcd cannot be restored: ${progress.problem}: annotate ${annotation.restoreEtcd} with another one, or =empty`;
      return stalledBy('EtcdRestoreFailed', message);
    }
    case 'done':
      return replicas === 1
        ? waitingFor(
            'EtcdRestoring',
            `etcd starts from the snapshot ${progress.snapshot ?? snapshot}`,
          )
        : scaling(set, 1, 'Retain', 'EtcdRestoring');
    default:
      return progress satisfies never;
  }
}

/** Somebody has asked for an empty etcd just before: it answers soon. */
function isBeingMade(observed: Observed, claims: readonly KubeObject[]): boolean {
  const { nowMillis, pods } = observed;
  const names = new Names(observed.cluster);
  const isNew = ({ metadata }: KubeObject): boolean =>
    nowMillis - Date.parse(metadata.creationTimestamp ?? '') < startMillisMax;
  const members = pods.filter(({ metadata }) => names.etcdOrdinal(metadata.name) !== null);
  return claims.every(isNew) && !members.some(isCrashLooping);
}

function hasSnapshots({ cluster, volumeClaims }: Observed): boolean {
  const { etcdSnapshots } = new Names(cluster);
  return volumeClaims.some(({ metadata }) => metadata.name === etcdSnapshots);
}

/** How many pods the set needs for all of these. */
function podsOf({ cluster }: Observed, members: readonly string[]): number {
  const names = new Names(cluster);
  return Math.max(0, ...members.map((pod) => (names.etcdOrdinal(pod) ?? -1) + 1));
}

/** Which volume each member has; empty when a person gave up what they had. */
export function recordedMembers(observed: Observed): Readonly<Record<string, RecordedMember>> {
  const { cluster, etcd, record, statefulSets, volumeClaims } = observed;
  const names = new Names(cluster);
  const before = record?.etcdMembers ?? {};
  if (etcd === null) return {};
  if (!etcd.reachable) {
    const isGivenUp =
      statefulSets.get(names.etcd)?.spec.replicas === 0 &&
      volumeClaims.every(({ metadata }) => names.etcdOrdinalOfClaim(metadata.name) === null);
    return isGivenUp ? {} : before;
  }
  const members = etcd.members.flatMap((member): [string, RecordedMember][] => {
    const pod = memberPod(cluster, member);
    if (pod === null || member.name === '') return [];
    const known = before[pod];
    const claimUid = claimUidOf(observed, pod);
    // All that there is of etcd is what the only member answers with.
    const isAlone = etcd.members.length === 1;
    const isKnown = known?.memberId === member.id && known.isRemoved !== true;
    // What it answers with is on this volume.
    if (member.state !== null && claimUid !== undefined && (isAlone || !isKnown)) {
      return [[pod, { memberId: member.id, claimUid }]];
    }
    return isKnown ? [[pod, withClaim(observed, known, member, claimUid)]] : [];
  });
  const ids = new Set(etcd.members.map(({ id }) => id));
  const removed = Object.entries(before)
    .filter(([pod, known]) => !ids.has(known.memberId) && isOn(known, claimUidOf(observed, pod)))
    .map(([pod, known]): [string, RecordedMember] => [pod, { ...known, isRemoved: true }]);
  // Who joined under the name of one that was removed comes after it.
  const all = {
    ...Object.fromEntries([...removed, ...spoiltFor(observed, etcd.members)]),
    ...Object.fromEntries(members),
  };
  return Object.fromEntries(Object.entries(all).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/**
 * Volumes with which who joins cannot start: data of one that was removed are on it, as is written
 * down, or seems so. Each join gives up one, and the note of it lasts as long as the join.
 */
function spoiltFor(observed: Observed, members: readonly EtcdMember[]): [string, RecordedMember][] {
  return members.flatMap((member): [string, RecordedMember][] => {
    const pod = memberPod(observed.cluster, member);
    if (pod === null || !isUnstarted(member)) return [];
    const known = observed.record?.etcdMembers[pod];
    if (known?.memberId === member.id) return known.isRemoved === true ? [[pod, known]] : [];
    const claimUid = claimUidOf(observed, pod);
    if (claimUid === undefined) return [];
    const isSpoilt = known !== undefined && isOn(known, claimUid);
    if (!isSpoilt && !isBroken(observed, pod)) return [];
    return [[pod, { memberId: member.id, claimUid, isRemoved: true }]];
  });
}

/** It joins, and has not answered yet. */
const isUnstarted = ({ isLearner, name, state }: EtcdMember): boolean =>
  (isLearner || name === '') && state === null;

/** @param claimUid of the volume that its pod has now */
function withClaim(
  observed: Observed,
  known: RecordedMember,
  { name, state }: EtcdMember,
  claimUid: string | undefined,
): RecordedMember {
  if (claimUid === undefined || claimUid === known.claimUid) return known;
  // After so many crashes Kubernetes lets its container wait for minutes: it begins anew as a whole.
  const isSpoilt = state !== null || isListed(observed, name) || isBroken(observed, name);
  if (!isSpoilt) return known;
  const { memberId, claimUid: former, laterClaimUid, laterAnswers } = known;
  const answers = state !== null || (laterAnswers === true && laterClaimUid === claimUid);
  const later = { memberId, claimUid: former, laterClaimUid: claimUid };
  return answers ? { ...later, laterAnswers: true } : later;
}

/** This volume has its data, or may have. */
const isOn = ({ claimUid, laterClaimUid }: RecordedMember, uid: string | undefined): boolean =>
  uid !== undefined && (uid === claimUid || uid === laterClaimUid);

function membersPart(
  observed: Observed,
  view: EtcdView & { readonly reachable: true },
  set: StatefulSet,
): Part | null {
  const { members } = view;
  const { cluster } = observed;
  const names = new Names(cluster);
  const wanted = etcdReplicasOf(cluster);
  const foreign = members.find((member) => memberPod(cluster, member) === null);
  if (foreign !== undefined) {
    const message = `etcd has a member that is none of ours: ${foreign.name} ${foreign.peerUrl}`;
    return stalledBy('EtcdForeignMember', message);
  }
  const ordinals = new Map(
    members.map((member) => [names.etcdOrdinal(memberPod(cluster, member)!)!, member]),
  );
  // Somebody has made the set smaller than its members need.
  const needed = podsOf(
    observed,
    members.filter(({ name }) => name !== '').map(({ name }) => name),
  );
  if ((set.spec.replicas ?? 1) < needed) return scaling(set, needed, 'Retain', 'EtcdNotReady');
  const joining = members.find(({ isLearner, name }) => isLearner || name === '');
  const voters = members.filter((member) => member !== joining);
  const lost = lostVoter(observed, voters);
  if (joining !== undefined) {
    if (lost === null || !isUnstarted(joining)) return joiningPart(observed, joining, set);
    // While somebody joins, who has lost its log may begin without it: that comes first.
    return removing(observed, joining, `the lost volume of ${lost.name} comes first`);
  }
  if (lost !== null) {
    const other = members.find((member) => member !== lost && member.state !== null);
    return leaving(observed, lost, other, 'its volume is lost');
  }
  const silent = members.filter(({ state }) => state === null);
  const broken = silent.find(({ name }) => isBroken(observed, name));
  // Nobody knows why: only when all others are well.
  if (broken !== undefined && silent.length === 1 && members.length > 1) {
    return removing(observed, broken, 'it does not start any more');
  }
  // Who comes comes before others go.
  const missing = Array.from({ length: wanted }, (_, at) => at).find((at) => !ordinals.has(at));
  if (missing !== undefined && silent.length === 0) {
    const pod = names.etcdPod(missing);
    const action: Action = { kind: 'etcd-add', pod, peerUrl: names.etcdPeerUrl(pod) };
    return doing([action], 'EtcdScaling', `${pod} joins etcd`);
  }
  const excess = [...ordinals.keys()].filter((ordinal) => ordinal >= wanted).sort((a, b) => b - a);
  const last = excess.length === 0 ? undefined : ordinals.get(excess[0]!)!;
  if (last !== undefined && silent.every((member) => member === last)) {
    return leaving(observed, last, ordinals.get(0), `etcd is to have ${wanted} members`);
  }
  const pods = Math.max(wanted, ...[...ordinals.keys()].map((ordinal) => ordinal + 1));
  if ((set.spec.replicas ?? 1) > pods) return scaling(set, pods, 'Delete', 'EtcdScaling');
  const left = volumesLeft(observed, pods, ordinals);
  if (left.length > 0) {
    return doing(
      left.map((object) => ({ kind: 'delete', object, orphan: false })),
      'EtcdScaling',
      'volumes of members that have left go',
    );
  }
  if (silent.length > 0) {
    const list = withTroubles(
      silent.map(({ name }) => name),
      observed,
    );
    return waitingFor('EtcdNotReady', `members of etcd do not answer: ${list}`);
  }
  return carePart(observed, view);
}

/**
 * A member without the volume that it had, which may leave: the others have a quorum of those that are
 * left. One that answers all the same has begun without its log, so that what it has voted for is not
 * what it knows; or only the note of its volume is old. So it does not go before there are three.
 */
function lostVoter(observed: Observed, voters: readonly EtcdMember[]): EtcdMember | null {
  const silent = voters.filter(({ state }) => state === null);
  const lost = [...silent, ...voters].find((member) => hasLostVolume(observed, member));
  if (lost === undefined) return null;
  const others = voters.filter((member) => member !== lost && member.state !== null);
  const wanted = Math.min(etcdReplicasOf(observed.cluster), 3);
  const mayGo = lost.state === null || voters.length >= wanted;
  return mayGo && others.length > (voters.length - 1) / 2 ? lost : null;
}

/**
 * Volumes of pods that the set is not to have, and that are no members. The set takes its hand off
 * them, but the TSDBCluster owns them too, so Kubernetes does not delete them.
 */
function volumesLeft(
  { cluster, volumeClaims, pods: live }: Observed,
  pods: number,
  members: ReadonlyMap<number, EtcdMember>,
): KubeObject[] {
  const names = new Names(cluster);
  const running = new Set(live.map(({ metadata }) => metadata.name));
  return volumeClaims.filter(({ metadata }) => {
    const ordinal = names.etcdOrdinalOfClaim(metadata.name);
    if (ordinal === null || ordinal < pods || members.has(ordinal)) return false;
    return metadata.deletionTimestamp === undefined && !running.has(names.etcdPod(ordinal));
  });
}

/** It has its pod, starts, catches up, and gets its vote. */
function joiningPart(observed: Observed, member: EtcdMember, set: StatefulSet): Part {
  const { cluster, record, volumeClaims, pods } = observed;
  const names = new Names(cluster);
  const pod = memberPod(cluster, member)!;
  const ordinal = names.etcdOrdinal(pod)!;
  if (ordinal >= etcdReplicasOf(cluster)) return removing(observed, member, 'it is not wanted');
  if ((set.spec.replicas ?? 1) <= ordinal) {
    return scaling(set, ordinal + 1, 'Retain', 'EtcdScaling');
  }
  if (hasLostVolume(observed, member)) return removing(observed, member, 'its volume is lost');
  const claim = volumeClaims.find(({ metadata }) => metadata.name === `data-${pod}`);
  const live = pods.find(({ metadata }) => metadata.name === pod);
  const known = record?.etcdMembers[pod];
  const isOld = known !== undefined && (known.memberId !== member.id || known.isRemoved === true);
  const hasOldData = isOld && isOn(known, claim?.metadata.uid) && member.state === null;
  if (claim !== undefined && hasOldData) {
    // Data of a member that etcd has removed: it would not start with them.
    const reason = 'its volume has the data of a member that was removed';
    return doing(
      [
        { kind: 'delete', object: claim, orphan: false },
        ...(live === undefined
          ? []
          : [{ kind: 'evict-pod', pod: live, reason, together: [] } as const]),
      ],
      'EtcdScaling',
      `${pod} starts with an empty volume`,
    );
  }
  if (member.name === '' || member.state === null) {
    if (isBroken(observed, pod)) {
      const tried =
        known?.memberId === member.id && known.isRemoved === true
          ? ', on an empty volume too, so its data are not the cause'
          : '';
      const message = `${pod} joins etcd and crashes at each start${tried}: look at its log; image, settings or a Secret of etcd may be bad`;
      return stalledBy('EtcdCrashing', message);
    }
    const text = withTroubles([pod], observed);
    return waitingFor('EtcdScaling', `${text} joins etcd and has not started`);
  }
  const promote: Action = { kind: 'etcd-promote', pod, memberId: member.id };
  return doing([promote], 'EtcdScaling', `${pod} catches up with etcd`);
}

/** Its pod has another volume than the one on which it was this member. */
function hasLostVolume(observed: Observed, { id, name }: EtcdMember): boolean {
  const known = observed.record?.etcdMembers[name];
  const claimUid = claimUidOf(observed, name);
  if (known?.memberId !== id || known.isRemoved === true) return false;
  return claimUid !== undefined && claimUid !== known.claimUid;
}

/** Its container ends again and again, whatever it finds. */
function isBroken({ pods }: Observed, pod: string): boolean {
  const live = pods.find(({ metadata }) => metadata.name === pod);
  return live !== undefined && isCrashLooping(live);
}

/** Room that is not used any more is given back, by the leader last. */
function carePart(
  observed: Observed,
  { members, alarms, compactableRevision }: EtcdView & { readonly reachable: true },
): Part | null {
  const isFull = alarms.some(({ kind }) => kind === noSpaceAlarm);
  if (compactableRevision !== null) {
    const action: Action = { kind: 'etcd-compact', revision: compactableRevision };
    return doing([action], 'EtcdNoSpace', 'etcd is full: former values of its keys go');
  }
  const large = members
    .filter(({ state }) => {
      const { dbBytes, dbBytesInUse } = state!;
      const isShort = isFull || dbBytes > etcdQuotaBytes * fullRatioMin;
      const ratioMin = isShort ? defragmentFullRatioMin : defragmentRatioMin;
      return dbBytes > dbBytesInUse * ratioMin && dbBytes > defragmentBytesMin;
    })
    .sort((a, b) => Number(a.state!.isLeader) - Number(b.state!.isLeader));
  if (large.length > 0) {
    const [{ name, state }] = large as [EtcdMember];
    const message = `${name} gives back room: ${state!.dbBytesInUse} of ${state!.dbBytes} bytes are used`;
    return doing([{ kind: 'etcd-defragment', pod: name }], 'EtcdDefragmenting', message);
  }
  const full = members.find(({ state }) => state!.dbBytesInUse > etcdQuotaBytes * fullRatioMin);
  if (isFull && full !== undefined && isLosingHistory(observed)) {
    return waitingFor('EtcdNoSpace', `etcd is full: former values of its keys go: ${full.name}`);
  }
  if (isFull && full !== undefined) {
    const message = `etcd is full: ${full.name} has ${full.state!.dbBytesInUse} of ${etcdQuotaBytes} bytes in use; delete keys that are not the cluster's own, then the alarm is taken back`;
    return stalledBy('EtcdAlarm', message);
  }
  const disarm = (some: readonly EtcdAlarm[]): Action[] =>
    some.map((alarm) => ({ kind: 'etcd-disarm', alarm }));
  if (isFull) {
    const actions = disarm(alarms.filter(({ kind }) => kind === noSpaceAlarm));
    return doing(actions, 'EtcdNoSpace', 'etcd was full, and has room again');
  }
  // etcd keeps the alarm of a member that has been removed, and with it goes on refusing everything.
  // Of one of which etcd does not know whose it is, it says no member.
  const gone = alarms.filter(
    ({ memberId }) => memberId !== '' && members.every(({ id }) => id !== memberId),
  );
  if (gone.length > 0) {
    return doing(disarm(gone), 'EtcdAlarm', 'who raised an alarm is no member any more');
  }
  if (alarms.length > 0) {
    const texts = alarms.map(
      ({ memberId, kind }) =>
        `${kind} of ${members.find(({ id }) => id === memberId)?.name ?? 'nobody knows whom'}`,
    );
    return stalledBy('EtcdAlarm', `etcd has alarms: ${texts.join(', ')}`);
  }
  return null;
}

/** etcd says at once that it has no former values any more, and then takes a minute or two to let them go. */
function isLosingHistory({ cluster, nowMillis }: Observed): boolean {
  const ready = cluster.status?.conditions?.find(({ type }) => type === 'EtcdReady');
  // What was not ready before was so for something else.
  if (ready?.status !== 'False' || ready.reason !== 'AlarmRaised') return true;
  return nowMillis - Date.parse(ready.lastTransitionTime) < compactionMillisMax;
}

/** A leader gives up leadership first. */
function leaving(
  observed: Observed,
  member: EtcdMember,
  heir: EtcdMember | undefined,
  why: string,
): Part {
  if (member.state?.isLeader !== true || heir === undefined) return removing(observed, member, why);
  return doing(
    [{ kind: 'etcd-move-leader', pod: member.name, toMemberId: heir.id }],
    'EtcdScaling',
    `${member.name} gives up leadership before it leaves etcd: ${why}`,
  );
}

function removing(observed: Observed, member: EtcdMember, why: string): Part {
  const pod = memberPod(observed.cluster, member)!;
  return doing(
    [{ kind: 'etcd-remove', pod, memberId: member.id }],
    'EtcdScaling',
    `${pod} leaves etcd: ${why}`,
  );
}

function scaling(
  set: StatefulSet,
  replicas: number,
  whenScaled: 'Retain' | 'Delete',
  reason: string,
): Part {
  return doing(
    [{ kind: 'scale-set', set, replicas, whenScaled }],
    reason,
    `${set.metadata.name} goes from ${set.spec.replicas ?? 1} to ${replicas} pods`,
  );
}
