/**
 * What befalls a simulated cluster. Each fault has an end; one that takes data from a disk comes
 * only while all other replicas are whole, since no quorum survives two.
 */
import { plainRequest } from '#cluster/admin/placement_requests.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { deletionsPrefix, namespacesKey } from '#cluster/kv/keys.ts';
import { fairKvWeather, type SimulatedKv } from './key_value.ts';
import type { SeededRandom } from '#test/seeded_random.ts';
import type { SimulatedCluster } from './cluster.ts';
import type { Feature } from './features.ts';
import type { WrongClock } from './wrong_clock.ts';
import {
  clusterName,
  fairDisk,
  type SimulatedCoordinator,
  type SimulatedNode,
  type World,
} from './world.ts';
import { requestSignal } from './request_signal.ts';

/** Begins; what it gives back ends it. Null when it cannot be now. */
type Fault = (faults: Faults) => (() => void) | null;

/** Of files with these names every bit may flip. */
const mayRot =
  /-(data|index|info|digest|checkpoint)\.db$|commitlog-\d+\.db$|snapshot-\d+\.db$|\/index\.db$|doubts-\d\.json$|folder_mark\.json$/;
const mayNotBeRead = /fileset|commitlog-|snapshot-|index\.db|tombstones\.bin|doubts-/;

const longestMillis = 45_000;
/** A data folder is marked in this time, while the key-value store can be reached. */
const markMillis = 20_000;
/** What a run was asked for comes so many times as often as the usual. */
const askedForWeight = 3;
/** More than the store gets while a backup lies. */
const revisionsRaised = 1000;
/** A store that went back is noticed in this time by somebody who runs. */
const noticedMillisMax = 60_000;
/** Between two attempts to approve it, and how long each may take. */
const approveMillis = 3_000;
const patienceMillis = 20_000;
/** Of quartz, of a bad one, and of virtual machines that are short of time. */
const drifts = [0.0002, 0.01, 0.2];
/** Between two losses of data. */
const lossMillisMin = 60_000;

export class Faults {
  readonly cluster: SimulatedCluster;
  readonly world: World;
  readonly random: SeededRandom;
  readonly #features: ReadonlySet<Feature>;
  readonly #ends = new Set<() => void>();
  #slow: ((from: string, to: string) => number) | null = null;
  #lastLossMillis = Number.NEGATIVE_INFINITY;
  #withHiddenLoss: SimulatedNode | null = null;
  readonly #admin = new Set<Promise<void>>();

  /** @param features what may happen beside the usual */
  constructor(cluster: SimulatedCluster, features: ReadonlySet<Feature>) {
    this.#features = features;
    this.cluster = cluster;
    this.world = cluster.world;
    this.random = cluster.world.randomFor('faults');
    const { network } = cluster.world;
    network.millis = (from, to) => network.usualMillis() + (this.#slow?.(from, to) ?? 0);
  }

  /** One more. */
  begin(): void {
    const { random, world } = this;
    const names = Object.keys(faults).flatMap((name) => {
      const feature = featureOf[name];
      if (feature === undefined) return [name];
      return this.#features.has(feature) ? Array<string>(askedForWeight).fill(name) : [];
    });
    const name = random.pick(names);
    world.trace(`FAULT ${name}`);
    const end = faults[name]!(this);
    if (end === null) return;
    this.cluster.note(`fault: ${name}`);
    this.endLater(name, end);
  }

  /** Calls what ends a fault, after a while or when all faults end. */
  endLater(name: string, end: () => void): void {
    const { random, world } = this;
    const once = (): void => {
      if (!this.#ends.delete(once)) return;
      world.trace(`END OF ${name}`);
      end();
    };
    this.#ends.add(once);
    world.time.after(2_000 + random.below(longestMillis), once);
  }

  /** Everything is mended. */
  async end(): Promise<void> {
    for (const end of this.#ends) end();
    for (const node of this.world.nodes.values()) {
      if (node.isOff) this.world.turnOn(node);
    }
    for (const { clockError } of [...this.world.nodes.values(), ...this.world.coordinators]) {
      clockError.setRight();
    }
    await Promise.all(this.#admin);
  }

  slow(millis: ((from: string, to: string) => number) | null): void {
    this.#slow = millis;
  }

  node(): SimulatedNode {
    return this.random.pick([...this.world.nodes.values()]);
  }

  coordinator(): SimulatedCoordinator {
    return this.random.pick(this.world.coordinators);
  }

  name(): string {
    const { world, random } = this;
    return random.pick([...world.nodes.keys(), ...world.coordinators.map(({ id }) => id)]);
  }

  /** Of a machine. */
  clock(): WrongClock {
    const { world, random } = this;
    return random.pick([...world.nodes.values(), ...world.coordinators]).clockError;
  }

  /** A client of the key-value store. */
  kv(): SimulatedKv {
    const { world, random } = this;
    const clients = [...world.nodes.values(), ...world.coordinators].flatMap(({ kv }) =>
      kv === null ? [] : [kv],
    );
    return random.pick(clients);
  }

  /**
   * A node whose disk may lose data now: all replicas are whole, and no other disk has lost any for
   * a while.
   * @param isHidden the loss is seen only when the data is read: until somebody compares replicas no
   *   other disk may lose anything
   */
  nodeThatMayLose(isHidden = false): SimulatedNode | null {
    const { time } = this.world;
    const isRecent = time.nowMillis - this.#lastLossMillis < lossMillisMin;
    if (isRecent || this.cluster.unsettled() !== null) return null;
    this.noteLoss();
    const node = this.#withHiddenLoss ?? this.node();
    if (isHidden) this.#withHiddenLoss = node;
    return node;
  }

  /**
   * One that may be away until the rows that it has are past retention, which is a loss of these: rows that it alone has
   * with a disk whose damage is hidden would be nobody's.
   * @param node unless another one has such a disk
   */
  nodeThatMayBeAwayForLong(node: SimulatedNode): SimulatedNode {
    return this.#withHiddenLoss ?? node;
  }

  /** A disk loses data just now. */
  noteLoss(): void {
    this.#lastLossMillis = this.world.time.nowMillis;
  }

  /** One node or two are not told of changes of these keys; they say what they know themselves. */
  holdWatches(prefix: string): () => void {
    const { world } = this;
    const kvs = [this.node(), this.node()].flatMap(({ kv }) => (kv === null ? [] : [kv]));
    const heldWatches = new RegExp(`^${prefix}`);
    for (const { name, weather } of kvs) {
      world.trace(`${name} is not told of ${prefix}`);
      weather.heldWatches = heldWatches;
    }
    return () => {
      for (const { weather } of kvs) weather.heldWatches = null;
    };
  }

  /**
   * Who has restored a store looks until the placement awaits approval, approves it, and looks whether
   * somebody has noticed only since then that the store went back.
   */
  approve(): void {
    const { world } = this;
    const endMillis = world.time.nowMillis + noticedMillisMax;
    const approved = async (): Promise<void> => {
      for (;;) {
        const { admin } = this.coordinator();
        const isLate = world.time.nowMillis > endMillis;
        try {
          const approving = admin
            .placementApprove({}, plainRequest, requestSignal())
            .then(() => true);
          // A coordinator that ends meanwhile says nothing.
          const patience = world.time.sleep(patienceMillis).then(() => false);
          if (await Promise.race([approving, patience])) {
            await world.time.sleep(noticedMillisMax);
            if (!world.awaitsApproval) return;
            world.trace('it awaits approval once more');
          }
        } catch (error) {
          if (!(error instanceof TsdbError)) throw error;
          world.trace(`not approved: ${messageOf(error)}`);
          // Nobody misses what the backup does not have.
          if (isLate && /nothing awaits approval/.test(messageOf(error))) throw error;
        }
        await world.time.sleep(approveMillis);
      }
    };
    this.administer('approve', approved);
  }

  /** A call of the administration, which may be refused. */
  administer(what: string, call: () => Promise<unknown>): void {
    const { cluster, world } = this;
    world.trace(what);
    const running = call().then(
      () => {
        cluster.note(`done: ${what.split(' ')[0]!}`);
        world.trace(`${what}: done`);
      },
      (error: unknown) => {
        if (!(error instanceof TsdbError)) throw error;
        world.trace(`${what}: ${messageOf(error)}`);
      },
    );
    running.catch((error: unknown) => world.time.fail(error));
    this.#admin.add(running);
    void running.finally(() => this.#admin.delete(running)).catch(() => {});
  }
}

/** What happens only in runs that ask for it. */
const featureOf: Readonly<Record<string, Feature>> = {
  'a disk is lost': 'lost disks',
  'a disk is rolled back': 'rolled-back disks',
  'bits of a disk flip': 'damage',
  'reads of a disk fail': 'read errors',
  'a disk hangs': 'hung disks',
  'a clock jumps': 'clocks',
  'a clock drifts': 'clocks',
  'the key-value store is restored from a backup': 'restores',
  'a copy of a folder is started': 'copies',
  'some hear of deletions late': 'deletions',
  'some hear of namespaces late': 'namespaces',
};

const nothing = (): void => {};

/** Whether a message between two is meant, in either direction. */
function between(one: string, other: string): (from: string, to: string) => boolean {
  return (from, to) => (from === one && to === other) || (from === other && to === one);
}

const faults: Record<string, Fault> = {
  'a node is killed': (f) => {
    f.world.killNode(f.node(), 'killed', false);
    return nothing;
  },
  'a node loses power': (f) => {
    f.world.killNode(f.node(), 'power', true);
    return nothing;
  },
  'a node loses power at a call of its disk': (f) => {
    f.node().diskState.killAfterCalls = 1 + f.random.below(400);
    return nothing;
  },
  'all nodes lose power': (f) => {
    for (const node of f.world.nodes.values()) f.world.killNode(node, 'power', true);
    return nothing;
  },
  'a node is away': (f) => {
    const node = f.node();
    f.world.turnOff(node, true);
    return () => f.world.turnOn(node);
  },
  'a coordinator is killed': (f) => {
    f.world.killCoordinator(f.coordinator());
    return nothing;
  },
  'one is cut off': (f) => {
    const name = f.name();
    f.world.trace(`${name} is cut off`);
    return f.world.network.cut((from, to) => from === name || to === name);
  },
  'one hears nothing': (f) => {
    const name = f.name();
    f.world.trace(`${name} hears nothing`);
    return f.world.network.cut((_, to) => to === name);
  },
  'one is not heard': (f) => {
    const name = f.name();
    f.world.trace(`${name} is not heard`);
    return f.world.network.cut((from) => from === name);
  },
  'two do not reach each other': (f) => {
    const one = f.name();
    const other = f.name();
    f.world.trace(`${one} and ${other} do not reach each other`);
    return f.world.network.cut(between(one, other));
  },
  'the network is slow': (f) => {
    const millis = 10 + f.random.below(3000);
    const { random } = f;
    f.slow(() => random.below(millis));
    return () => f.slow(null);
  },
  'requests arrive twice': (f) => {
    const { network } = f.world;
    network.duplicatesPerThousand = 100;
    return () => {
      network.duplicatesPerThousand = 0;
    };
  },
  'one is cut from the key-value store': (f) => {
    const { weather } = f.kv();
    weather.isCut = true;
    return () => Object.assign(weather, fairKvWeather);
  },
  'the key-value store is away': (f) => {
    const { world } = f;
    const weathers = [...world.nodes.values(), ...world.coordinators].flatMap(({ kv }) =>
      kv === null ? [] : [kv.weather],
    );
    for (const weather of weathers) weather.isCut = true;
    return () => {
      for (const weather of weathers) Object.assign(weather, fairKvWeather);
    };
  },
  'answers of the key-value store are lost': (f) => {
    const { weather } = f.kv();
    weather.lostAnswersPerThousand = 400;
    return () => Object.assign(weather, fairKvWeather);
  },
  'the watches of one lag': (f) => {
    const { weather } = f.kv();
    weather.watchLagMillisMax = 20_000;
    return () => Object.assign(weather, fairKvWeather);
  },
  'the key-value store is compacted': (f) => {
    f.world.kvStore.compact();
    return nothing;
  },
  'a disk is slow': (f) => {
    const { diskState } = f.node();
    diskState.delayMillisMax = 5 + f.random.below(200);
    return () => {
      diskState.delayMillisMax = fairDisk.delayMillisMax;
    };
  },
  'writes and syncs of a disk fail': (f) => {
    const { troubles } = f.node().disk;
    troubles.writeFailures = f.random.below(2) * 100;
    troubles.syncFailures = f.random.below(2) * 100;
    return () => {
      troubles.writeFailures = 0;
      troubles.syncFailures = 0;
    };
  },
  'a disk is full': (f) => {
    const { troubles } = f.node().disk;
    troubles.writeFailures = 1000;
    return () => {
      troubles.writeFailures = 0;
    };
  },
  'a node is added': (f) => {
    const { world, random } = f;
    if (world.nodes.size > 7) return null;
    const group = random.pick(['a', 'b', 'c', 'd']);
    const node = world.addNode(`${group}${world.nodes.size + 3}`, group);
    const instances = [world.infoOf(node)];
    const { admin } = f.coordinator();
    f.administer(`add ${node.id}`, () =>
      admin.placementAdd({ instances }, plainRequest, requestSignal()),
    );
    return nothing;
  },
  'a node is removed': (f) => {
    const placement = f.cluster.placement();
    if (placement === null || placement.instances.length < 4) return null;
    const { id } = f.random.pick(placement.instances);
    const { admin } = f.coordinator();
    f.administer(`remove ${id}`, () =>
      admin.placementRemove({ instanceIds: [id] }, plainRequest, requestSignal()),
    );
    return nothing;
  },
  'a node is replaced': (f) => {
    const { world, random } = f;
    const placement = f.cluster.placement();
    if (placement === null || world.nodes.size > 7) return null;
    const { id, isolationGroup } = random.pick(placement.instances);
    const node = world.addNode(`${isolationGroup}${world.nodes.size + 3}`, isolationGroup);
    const body = { leavingInstanceIDs: [id], candidates: [world.infoOf(node)] };
    const { admin } = f.coordinator();
    f.administer(`replace ${id} by ${node.id}`, () =>
      admin.placementReplace(body, plainRequest, requestSignal()),
    );
    return nothing;
  },
  'a disk is lost': (f) => {
    const node = f.nodeThatMayLose();
    if (node === null) return null;
    f.world.wipe(node);
    return nothing;
  },
  'a disk is rolled back': (f) => {
    const node = f.nodeThatMayLose();
    if (node === null) return null;
    const copy = node.disk.copy();
    const copiedMillis = f.world.time.nowMillis;
    return () => {
      // A younger copy is not told from the folder itself (docs/ARCHITECTURE.md, Identity).
      if (f.world.time.nowMillis - copiedMillis < markMillis) return;
      f.world.killNode(node, 'its disk is rolled back', true);
      node.disk.restore(copy);
    };
  },
  'bits of a disk flip': (f) => {
    const node = f.nodeThatMayLose(true);
    if (node === null) return null;
    for (let left = 1 + f.random.below(4); left > 0; left -= 1) {
      const path = node.disk.flip((name) => mayRot.test(name));
      if (path !== null) f.world.trace(`a bit of ${node.id} flips: ${path}`);
    }
    return nothing;
  },
  'reads of a disk fail': (f) => {
    const node = f.nodeThatMayLose(true);
    if (node === null) return null;
    const { diskState } = node;
    diskState.readFailures = { paths: mayNotBeRead, perThousand: 200 };
    return () => {
      diskState.readFailures = null;
    };
  },
  'a disk hangs': (f) => {
    const { diskState } = f.node();
    diskState.hangs = /./;
    return () => {
      diskState.hangs = null;
    };
  },
  'a clock jumps': (f) => {
    const clock = f.clock();
    const farMillis = f.random.below(2) === 0 ? 5_000 : 3 * 24 * 3_600_000;
    clock.offsetMillis += (f.random.fraction() - 0.5) * 2 * farMillis;
    return () => clock.setRight();
  },
  'a clock drifts': (f) => {
    const clock = f.clock();
    const drift = f.random.pick(drifts);
    clock.rate = 1 + (f.random.below(2) === 0 ? drift : -drift);
    f.world.trace(`it runs at ${clock.rate}`);
    return () => {
      // It is set right in one step, or stays as wrong as it has become.
      if (f.random.below(2) === 0) clock.setRight();
      else clock.rate = 1;
    };
  },
  'the key-value store is restored from a backup': (f) => {
    const { world, random } = f;
    const { kvStore } = world;
    const backup = kvStore.backUp();
    return () => {
      // Another backup is being restored.
      if (kvStore.memory === null) return;
      kvStore.goAway();
      const raisedBy = random.below(2) * revisionsRaised;
      const awayMillis = 1_000 + random.below(8_000);
      const back = (): void => {
        world.trace(`the store has revision ${backup.revision} again, raised by ${raisedBy}`);
        kvStore.restore(backup, raisedBy);
        f.approve();
        if (random.below(2) === 0) return;
        // Who restores a store starts what uses it again, to be sure.
        for (const node of world.nodes.values()) world.killNode(node, 'restarted', false);
        for (const coordinator of world.coordinators) world.killCoordinator(coordinator);
      };
      world.time.after(awayMillis, back);
    };
  },
  'a copy of a folder is started': (f) => {
    const node = f.nodeThatMayLose();
    if (node === null) return null;
    const { world, random } = f;
    const disk = node.disk.copy();
    const copiedMillis = world.time.nowMillis;
    return () => {
      if (world.time.nowMillis - copiedMillis < markMillis) return;
      const copy = world.addCopy(node, disk, random.below(2) === 0);
      f.noteLoss();
      f.endLater(`a copy of ${node.id} runs`, () => {
        world.turnOff(copy, false);
        f.noteLoss();
      });
    };
  },
  'some hear of deletions late': (f) => f.holdWatches(deletionsPrefix(clusterName)),
  'some hear of namespaces late': (f) => f.holdWatches(namespacesKey(clusterName)),
};
