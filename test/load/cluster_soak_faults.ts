/**
 * What befalls a cluster in a soak, one fault after the other. Each leaves all processes running;
 * that the cluster is whole again is waited for behind it.
 */
import { cpSync, rmSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { SeededRandom } from '../seeded_random.ts';
import type { ClusterChecker } from './cluster_soak_checker.ts';
import {
  blockStartOf,
  fillDisk,
  filesetsOf,
  flipBit,
  freeDisk,
  longestLogOf,
  putOnSmallDisk,
  takeFromSmallDisk,
  whyNoMount,
} from './cluster_soak_disks.ts';
import { type Member, namespace, type SoakCluster } from './cluster_soak_processes.ts';

export interface FaultContext {
  readonly cluster: SoakCluster;
  readonly checker: ClusterChecker;
  readonly random: SeededRandom;
  readonly times: FaultTimes;
}

export interface FaultTimes {
  /** Between two kills, and until who is down is started again. */
  readonly downMillis: number;
  readonly pausedMillis: number;
  readonly etcdAwayMillis: number;
  readonly fullDiskMillis: number;
  readonly wrongClockMillis: number;
  readonly wholeTimeoutMillis: number;
  readonly blockMillis: number;
}

export interface Fault {
  /** Null when it can happen now; else why not. */
  readonly whyNot?: (context: FaultContext) => string | null;
  /** Resolves to what was done, in a line. */
  readonly run: (context: FaultContext) => Promise<string>;
}

/** More processes than this only wait for each other. */
const membersMax = 7;
const membersMin = 5;
const damagedFilesets = 3;
/** A long fileset has this many blocks at most, as far as a read of what is damaged goes. */
const blocksOfFileset = 8;
/** A full disk has so much left when its node starts on it. */
const smallDiskMebibytes = 48;
const refillMillis = 500;
const heardMillis = 12_000;
/** A node that starts without etcd serves after some fifteen seconds. */
const aloneMillisMin = 60_000;
/** Jumps of one clock: across the limit of a minute either way, and of days. */
const clockJumpsSeconds = [-90, 90, 1800, 172_800, -172_800];

export const faults: Readonly<Record<string, Fault>> = {
  replace: {
    whyNot: ({ cluster }) => notLarger(cluster, membersMax),
    run: async ({ cluster, random, times }) => {
      const member = random.pick(cluster.members);
      const candidate = await cluster.replace(member);
      await cluster.whole(times.wholeTimeoutMillis);
      await cluster.retire(member);
      return `${member.id} by ${candidate.id} in ${member.group}`;
    },
  },
  remove: {
    whyNot: ({ cluster }) =>
      cluster.members.length > membersMin ? null : `there are ${cluster.members.length} nodes`,
    run: async ({ cluster, random, times }) => {
      const member = random.pick(cluster.members.filter((each) => hasNeighbour(cluster, each)));
      await cluster.remove(member);
      await cluster.whole(times.wholeTimeoutMillis);
      await cluster.retire(member);
      return member.id;
    },
  },
  'add two': {
    whyNot: ({ cluster }) => notLarger(cluster, membersMax - 1),
    run: async ({ cluster, random }) => {
      const groups = [...groupsOf(cluster)].sort();
      const two = Array.from({ length: 2 }, () => random.pick(groups));
      const added = await cluster.add(two);
      return added.map(({ id, group }) => `${id} in ${group}`).join(', ');
    },
  },
  'kill two': {
    run: async ({ cluster, random, times }) => {
      const first = random.pick(cluster.members);
      const second = random.pick(cluster.members.filter(({ group }) => group !== first.group));
      // Of two that are away at once no quorum is left of some shards: nobody could write.
      for (const member of [first, second]) {
        await cluster.end(member);
        await delay(times.downMillis);
        cluster.begin(member);
        await cluster.whole(times.wholeTimeoutMillis);
      }
      return `${first.id} in ${first.group}, ${second.id} in ${second.group}`;
    },
  },
  roll: {
    whyNot: ({ cluster }) => (cluster.hasRelease ? null : 'there is no --release to roll from'),
    run: ({ cluster, times }) => cluster.roll(times.wholeTimeoutMillis),
  },
  'kill all': {
    run: async ({ cluster }) => {
      await Promise.all(cluster.members.map((member) => cluster.end(member)));
      for (const member of cluster.members) cluster.begin(member);
      return `${cluster.members.length} nodes`;
    },
  },
  'kill coordinator': {
    run: async ({ cluster, random, times }) => {
      const coordinator = random.pick(cluster.coordinators);
      await cluster.endProgram(coordinator);
      await delay(times.downMillis);
      cluster.beginProgram(coordinator);
      return coordinator.name;
    },
  },
  'wipe folder': {
    run: async ({ cluster, random }) => {
      const member = random.pick(cluster.members);
      await cluster.end(member);
      rmSync(member.data, { recursive: true });
      cluster.begin(member);
      return member.id;
    },
  },
  'damage stopped': {
    run: async (context) => {
      const { cluster, random } = context;
      const member = await withFilesets(context);
      await cluster.end(member);
      const damaged = [...damageFilesets(member, random), damageLog(member, random)];
      cluster.begin(member);
      await readDamaged(context, damaged);
      return `${member.id}: ${damaged.map((path) => path.slice(member.data.length + 1)).join(', ')}`;
    },
  },
  'damage running': {
    run: async (context) => {
      const { cluster, random } = context;
      const member = await withFilesets(context);
      const damaged = [...damageFilesets(member, random), damageLog(member, random)];
      // Filesets are found out by reads, the log by a start: what nobody knows of must not meet the
      // loss of another disk.
      await readDamaged(context, damaged);
      await cluster.end(member);
      cluster.begin(member);
      return `${member.id}: ${damaged.map((path) => path.slice(member.data.length + 1)).join(', ')}`;
    },
  },
  pause: {
    run: async ({ cluster, random, times }) => {
      const member = random.pick(cluster.members);
      cluster.pause(member, true);
      await delay(times.pausedMillis);
      cluster.pause(member, false);
      return member.id;
    },
  },
  'full disk': {
    whyNot: () => {
      const why = whyNoMount();
      return why === null ? null : `this process may not mount a small disk: ${why}`;
    },
    run: async ({ cluster, random, times }) => {
      const member = random.pick(cluster.members);
      await cluster.end(member, 'SIGTERM');
      putOnSmallDisk(member.data, smallDiskMebibytes);
      cluster.begin(member);
      await cluster.whole(times.wholeTimeoutMillis);
      const end = performance.now() + times.fullDiskMillis;
      while (performance.now() < end) {
        fillDisk(member.data);
        await delay(refillMillis);
      }
      const failures = await cluster.metric(member, 'commitlog_failures_total');
      freeDisk(member.data);
      await cluster.whole(times.wholeTimeoutMillis);
      await cluster.end(member, 'SIGTERM');
      takeFromSmallDisk(member.data);
      cluster.begin(member);
      return `${member.id}: ${failures} failures of its log`;
    },
  },
  clock: {
    run: async ({ cluster, random, times }) => {
      const member = random.pick(cluster.members);
      const seconds = random.pick(clockJumpsSeconds);
      writeFileSync(member.clockFile, String(seconds * 1000));
      await delay(times.wrongClockMillis);
      writeFileSync(member.clockFile, '0');
      return `${member.id} by ${seconds} s`;
    },
  },
  'etcd away': {
    run: async ({ cluster, random, times }) => {
      const { etcdAwayMillis, downMillis } = times;
      if (etcdAwayMillis < aloneMillisMin) {
        await cluster.endProgram(cluster.etcd);
        await delay(etcdAwayMillis);
        cluster.beginProgram(cluster.etcd);
        return `${etcdAwayMillis / 1000} s`;
      }
      // Those who own shards with it hear of each node every ten seconds.
      await delay(heardMillis);
      await cluster.endProgram(cluster.etcd);
      await delay(downMillis);
      const member = random.pick(cluster.members);
      await cluster.end(member);
      cluster.begin(member);
      await delay(etcdAwayMillis - downMillis);
      const problem = await cluster.problemOf(member);
      cluster.beginProgram(cluster.etcd);
      if (problem !== null) throw new Error(`a node does not serve without etcd: ${problem}`);
      return `${etcdAwayMillis / 1000} s, and ${member.id} was started meanwhile`;
    },
  },
  'restore etcd': {
    run: async (context) => {
      const { cluster, times } = context;
      const backup = `${cluster.etcdFolder}.backup`;
      // A copy of a store that is stopped is what `etcdctl snapshot save` gives, and needs no other
      // program to bring it back.
      await cluster.endProgram(cluster.etcd);
      cpSync(cluster.etcdFolder, backup, { recursive: true });
      cluster.beginProgram(cluster.etcd);
      await cluster.whole(times.wholeTimeoutMillis);
      const replaced = await faults['replace']!.run(context);
      await cluster.endProgram(cluster.etcd);
      rmSync(cluster.etcdFolder, { recursive: true });
      cpSync(backup, cluster.etcdFolder, { recursive: true });
      rmSync(backup, { recursive: true });
      cluster.beginProgram(cluster.etcd);
      await cluster.approve();
      return `from before replacing ${replaced}`;
    },
  },
};

/** A roll needs another release. */
export const usualFaults: readonly string[] = Object.keys(faults).filter((name) => name !== 'roll');

function groupsOf(cluster: SoakCluster): Set<string> {
  return new Set(cluster.members.map(({ group }) => group));
}

/** Without one its group would be gone, and replicas of a shard are in different groups. */
function hasNeighbour(cluster: SoakCluster, member: Member): boolean {
  return cluster.members.some((each) => each !== member && each.group === member.group);
}

function notLarger(cluster: SoakCluster, most: number): string | null {
  return cluster.members.length < most ? null : `there are ${cluster.members.length} nodes`;
}

/** A node with enough filesets to damage; one that has too few yet writes some. */
async function withFilesets({ cluster, random }: FaultContext): Promise<Member> {
  const member = random.pick(cluster.members);
  if (filesetsOf(member.data, namespace).length < damagedFilesets) await cluster.flush(member);
  return member;
}

function damageFilesets(member: Member, random: SeededRandom): string[] {
  const left = filesetsOf(member.data, namespace);
  const damaged: string[] = [];
  while (damaged.length < damagedFilesets && left.length > 0) {
    const [path] = left.splice(random.below(left.length), 1) as [string];
    flipBit(path, random.fraction(), random.below(8));
    damaged.push(path);
  }
  return damaged;
}

/** In the middle: at the end it would be what a crash leaves torn. */
function damageLog(member: Member, random: SeededRandom): string {
  const path = longestLogOf(member.data);
  flipBit(path, 0.25 + random.fraction() / 2, random.below(8));
  return path;
}

/** Reads the times of damaged filesets, so that the damage is found. */
async function readDamaged(
  { cluster, checker, times }: FaultContext,
  damaged: readonly string[],
): Promise<void> {
  await cluster.whole(times.wholeTimeoutMillis);
  const starts = damaged
    .filter((path) => path.includes('fileset-'))
    .map((path) => blockStartOf(path))
    .sort((a, b) => a - b);
  let readTo = 0;
  for (const start of starts) {
    const from = Math.max(start, readTo);
    readTo = start + blocksOfFileset * times.blockMillis;
    if (from < readTo) await checker.readAll(from, readTo);
  }
}
