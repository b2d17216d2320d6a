/**
 * Random lives of a cluster: the resource changes, pods break and die, others meddle with our
 * objects, the coordinator is away, calls fail before and after they were carried out, the operator
 * is killed. Whatever comes, no write takes away what the shards still need, and once all is well
 * again everything is as the resource says and nothing more is written.
 */
import assert from 'node:assert/strict';
import { specOf, World } from '../world_testing.ts';

type Json = any;

const groups = ['a', 'a-b', 'c'];

export async function fuzz(seed: number, size: number, traceLines = 30): Promise<void> {
  const life = new Life(randomOf(seed));
  try {
    for (let step = 0; step < size; step++) await life.step();
    await life.end();
  } catch (error) {
    const trace = life.trace.slice(-traceLines).join('\n');
    throw new Error(`seed ${seed}: ${(error as Error).message}\n${trace}`, { cause: error });
  }
}

/** Whole numbers in [0, below). */
function randomOf(seed: number): (below: number) => number {
  let state = (seed * 2654435761) >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

class Life {
  readonly trace: string[] = [];
  readonly #world = new World();
  readonly #random: (below: number) => number;
  /** What the operator did wrong: it catches what its calls throw. */
  #violation: Error | null = null;
  /** What touched running nodes in this pass. */
  #disruptions: string[] = [];
  #failIn = Number.POSITIVE_INFINITY;
  #failAfterwards = false;
  #claimCount = 0;

  constructor(random: (below: number) => number) {
    this.#random = random;
    const world = this.#world;
    world.badImages.add('node:bad');
    world.badClasses.add('no-disk');
    world.kube.beforeWrite = (write, body) => {
      this.trace.push(`  ${write}`);
      this.#check(() => this.#checkWrite(write, body));
      this.#failNow(false);
    };
    world.kube.afterWrite = () => this.#failNow(true);
    world.beforeCall = (call) => {
      this.trace.push(`  ${call}`);
      this.#check(() => this.#checkCall(call));
      this.#failNow(false);
    };
    world.afterCall = () => this.#failNow(true);
    world.etcd.beforeCall = (call) => {
      this.trace.push(`  etcd ${call}`);
      this.#failNow(false);
    };
    const nodes = { replicasPerGroup: 1 + this.#random(2), replaceAfter: '10s' };
    world.addCluster(specOf({ nodes }));
  }

  #check(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.#violation ??= error as Error;
      throw error;
    }
  }

  async step(): Promise<void> {
    this.#change();
    const passes = this.#random(6);
    for (let pass = 0; pass < passes; pass++) await this.#pass();
  }

  async #pass(): Promise<void> {
    this.#disruptions = [];
    this.trace.push('pass');
    try {
      await this.#world.reconcile();
    } catch (error) {
      this.trace.push(`  failed: ${(error as Error).message}`);
    }
    if (this.#violation !== null) throw this.#violation;
    assert.equal(this.#world.etcd.violation, null);
    if (this.#random(8) === 0) return;
    await this.#world.clock.pass(2_000);
    const world = this.#world;
    const placed = world.instanceIds().map((id) => `data-${id}`);
    const isThere = (name: string) => world.kube.find('PersistentVolumeClaim', name) !== undefined;
    const claims = placed.filter(isThere);
    await world.advance();
    const lost = claims.filter((name) => !isThere(name));
    assert.deepEqual(lost, [], 'a node that has shards keeps its volume');
  }

  #failNow(afterwards: boolean): void {
    if (afterwards !== this.#failAfterwards || --this.#failIn > 0) return;
    this.#failIn = Number.POSITIVE_INFINITY;
    if (this.#random(2) === 0) this.#world.restartOperator();
    throw new Error(`connection lost ${afterwards ? 'after' : 'before'} the write`);
  }

  #change(): void {
    const random = this.#random;
    const world = this.#world;
    const spec = (what: string, change: (spec: Json) => void) => {
      this.trace.push(what);
      world.changeSpec(change);
    };
    const one = <T>(items: readonly T[]): T | undefined => items[random(items.length)];
    const dice = random(19);
    const etcdDice = random(12);
    if (random(10) === 0) this.#castDoubt();
    if (random(12) === 0) this.#changeGroups();
    if (random(12) === 0) {
      const resources = { limits: { cpu: `${1 + random(3)}`, memory: `${1 + random(2)}Gi` } };
      spec(`resources ${JSON.stringify(resources)}`, ({ nodes }) => (nodes.resources = resources));
    }
    if (etcdDice === 0) {
      const replicas = one([1, 3, 5])!;
      spec(`members of etcd ${replicas}`, (whole) => (whole.etcd = { ...whole.etcd, replicas }));
    } else if (etcdDice === 1) this.#loseVolume();
    else if (etcdDice === 2) this.#loseMachine();
    else if (dice < 4) {
      const replicas = 1 + random(3);
      spec(`replicas ${replicas}`, ({ nodes }) => (nodes.replicasPerGroup = replicas));
    } else if (dice < 5) {
      const image = one(['node:1', 'node:2', 'node:3', 'node:bad'])!;
      spec(`image ${image}`, ({ nodes }) => (nodes.image = image));
    } else if (dice < 6) {
      const image = one(['1', '2'])!;
      spec(`images of etcd and coordinators ${image}`, (whole) => {
        whole.etcd = { ...whole.etcd, image: `etcd:${image}` };
        whole.coordinator = { ...whole.coordinator, image: `coordinator:${image}` };
      });
    } else if (dice < 7) {
      const size = one(['100Gi', '200Gi', '300Gi'])!;
      const className = one(['fast-disk', 'fast-disk', 'other-disk', 'no-disk'])!;
      spec(`size ${size} of ${className}`, ({ nodes }) => (nodes.storage = { size, className }));
    } else if (dice < 8) {
      spec('paused', (whole) => (whole.paused = random(2) === 0));
    } else if (dice < 9) {
      const maxUnavailable = 1 + random(3);
      spec(`at a time ${maxUnavailable}`, ({ nodes }) => (nodes.maxUnavailable = maxUnavailable));
      const windows = one([undefined, [{ start: '00:00', duration: '1m' }]]);
      spec(`windows ${windows?.length}`, (whole) => (whole.maintenanceWindows = windows));
      const policy = one(['Gated', 'Automatic'])!;
      spec(`policy ${policy}`, (whole) => (whole.updatePolicy = policy));
    } else if (dice < 11) {
      const name = `c-${one([...groups, 'd'])}-${random(2)}`;
      this.trace.push(`broken or mended: ${name}`);
      if (!world.broken.delete(name)) world.broken.add(name);
    } else if (dice < 12) {
      const pod = one(world.kube.ofKind('Pod'));
      this.trace.push(`killed: ${pod?.metadata.name}`);
      if (pod !== undefined) world.kube.remove(pod);
    } else if (dice < 13) {
      world.coordinatorUp = !world.coordinatorUp;
      this.trace.push(`coordinator ${world.coordinatorUp ? 'up' : 'down'}`);
    } else if (dice < 15) {
      this.#failIn = 1 + random(8);
      this.#failAfterwards = random(2) === 0;
    } else if (dice < 16) this.#meddle();
    else if (dice < 17) {
      const name = `n${this.#claimCount++ % 4}`;
      const claim = world.kube.find('TSDBNamespace', name);
      this.trace.push(`claim ${name} ${claim === undefined ? 'comes' : 'goes'}`);
      if (claim === undefined) world.addClaim(name, { retentionTime: '24h' });
      else world.kube.remove(claim);
    } else if (dice < 18) {
      // None, one that is rolled out, and one that is refused.
      const over = one([
        undefined,
        { priorityClassName: 'high' },
        { serviceAccountName: 'admin' },
      ])!;
      const component = one(['nodes', 'etcd', 'coordinator'])!;
      spec(`podTemplate of ${component} ${JSON.stringify(over)}`, (whole) => {
        whole[component] = { ...whole[component], podTemplate: over && { spec: over } };
      });
    } else world.restartOperator();
  }

  /** One of several members, while all of them are well: the others have a quorum. */
  #loseVolume(): void {
    const world = this.#world;
    const { voters, members } = world.etcd;
    const isWell = voters.length >= 3 && members.every((name) => world.etcd.isRunning(name));
    if (!isWell) return;
    const pod = voters[this.#random(voters.length)]!;
    this.trace.push(`volume of ${pod} lost`);
    world.loseVolume(pod);
  }

  /** Of one node, while all are well: the others have all that it had. */
  #loseMachine(): void {
    const world = this.#world;
    const ids = world.instanceIds();
    const isWell =
      ids.length > 0 &&
      ids.every((id) => world.isReady(id)) &&
      // One may have been given up, and its pod not been taken away yet.
      ids.every((id) => world.kube.find('PersistentVolumeClaim', `data-${id}`) !== undefined) &&
      world.shardStates().every((state) => state === 'AVAILABLE');
    if (!isWell) return;
    const id = ids[this.#random(ids.length)]!;
    this.trace.push(`machine of ${id} lost`);
    world.loseMachine(id);
  }

  /** A group more, or one less, or one for another one. */
  #changeGroups(): void {
    const { spec } = this.#world.cluster;
    const names: string[] = spec.isolationGroups.map(({ name }: Json) => name);
    const absent = [...groups, 'd'].filter((name) => !names.includes(name));
    const present = names.filter(() => absent.length === 0 || this.#random(2) === 0);
    const going = present[this.#random(present.length)];
    const after = [...names.filter((name) => name !== going), ...absent];
    this.trace.push(`groups ${after.join(' ')}`);
    this.#world.changeSpec((whole) => (whole.isolationGroups = after.map((name) => ({ name }))));
  }

  /** A node finds damage, or has what it lacked. */
  #castDoubt(): void {
    const { lacking } = this.#world;
    const ids = this.#world.instanceIds();
    const id = ids[this.#random(ids.length)];
    if (lacking.size > 0 || id === undefined) {
      this.trace.push(`nobody lacks blocks: ${[...lacking.keys()].join(', ')}`);
      lacking.clear();
      return;
    }
    const shards = [this.#random(12), this.#random(12)];
    this.trace.push(`${id} lacks blocks of ${shards.join(', ')}`);
    lacking.set(id, shards);
  }

  #checkDoubts(ids: readonly string[]): void {
    for (const id of ids) {
      const others = this.#world.inDoubtBeside(id).filter((other) => !ids.includes(other));
      assert.deepEqual(others, [], `${id} has what others lack`);
    }
  }

  /** Somebody changes or deletes an object of ours. */
  #meddle(): void {
    const { kube } = this.#world;
    const kinds = ['StatefulSet', 'Service', 'ConfigMap', 'Deployment', 'PodDisruptionBudget'];
    // The record is what nobody else knows: without it a lost volume of etcd is not told from one that
    // is away.
    const ours = kinds
      .flatMap((kind) => kube.ofKind(kind))
      .filter(({ metadata }) => metadata.name !== 'c-record');
    const object = structuredClone(ours[this.#random(ours.length)]) as Json;
    if (object === undefined) return;
    const { kind, metadata } = object;
    if (kind === 'StatefulSet' && this.#random(2) === 0) {
      object.spec.replicas = this.#random(5);
      this.trace.push(`meddled: ${kind}/${metadata.name} to ${object.spec.replicas}`);
      kube.store(object);
      return;
    }
    this.trace.push(`meddled: ${kind}/${metadata.name} is gone`);
    kube.remove(object);
  }

  /** @param what touches nodes, or members of etcd: of each one at a time */
  #disrupt(what: string): void {
    this.#disruptions.push(what);
    const isOfEtcd = (one: string): boolean => one.includes('c-etcd');
    const same = this.#disruptions.filter((one) => isOfEtcd(one) === isOfEtcd(what));
    assert.equal(same.length, 1, `one at a time: ${same.join(', ')}`);
  }

  #checkWrite(write: string, body: Json): void {
    const world = this.#world;
    const [method, target] = write.split(' ') as [string, string];
    const isStatus = /TSDB|Event/.test(target);
    if (!isStatus) {
      // What the operator notes for itself it always may.
      const isNote = write === 'APPLY ConfigMap/c-record';
      assert.ok(isNote || world.cluster.spec.paused !== true, `${write} while paused`);
    }
    if (method === 'DELETE') this.#checkDelete(target, body);
    if (method === 'EVICT') this.#checkEviction(body);
    if (!target.startsWith('StatefulSet/')) return;
    if (method === 'APPLY' || method === 'PATCH') {
      assert.equal(body.spec.template?.spec.serviceAccountName, undefined, 'refused');
      this.#checkSet(target.slice('StatefulSet/'.length), body);
    }
  }

  /** A pod that serves goes when all others of its kind do; one that serves nothing at any time. */
  #checkEviction({ metadata }: Json): void {
    const { name } = metadata;
    this.#disrupt(`evict ${name}`);
    if (!this.#world.isReady(name)) return;
    const component = metadata.labels['tsdb.io/component'];
    // One that never joined has nothing that somebody needs.
    if (component === 'node' && !this.#world.instanceIds().includes(name)) return;
    const { maintenanceWindow } = this.#world.cluster.status;
    assert.notEqual(maintenanceWindow?.open, false, `${name} outside of a window`);
    const unready = this.#world.unreadyPods(component);
    assert.deepEqual(unready, [], `${name} serves while others do not`);
    if (component === 'etcd') return;
    assert.equal(component, 'node');
    const states = this.#world.shardStates();
    const isSettled = states.every((state) => state === 'AVAILABLE');
    assert.ok(isSettled, `${name} while shards move`);
    this.#checkDoubts([name]);
  }

  /** Nobody asks for its group any more, and nothing of it has a shard. */
  #isGoneGroup(pod: string): boolean {
    const group = pod.replace(/-\d+$/, '');
    const { isolationGroups } = this.#world.cluster.spec;
    const ids = this.#world.instanceIds();
    return (
      isolationGroups.every(({ name }: Json) => `c-${name}` !== group) &&
      ids.every((id) => id.replace(/-\d+$/, '') !== group)
    );
  }

  /** Data that can be reached are given up only for another storage class. */
  #checkClass(pod: string, claim: Json): void {
    const set: Json = this.#world.kube.find('StatefulSet', pod.replace(/-\d+$/, ''));
    const [wanted] = set.spec.volumeClaimTemplates;
    assert.notEqual(claim.spec.storageClassName, wanted.spec.storageClassName, pod);
    const ids = this.#world.instanceIds();
    // One that never joined has nothing on it.
    if (!this.#world.isReady(pod) || !ids.includes(pod)) return;
    const away = this.#world.unreadyNodes().filter((name) => ids.includes(name));
    assert.deepEqual(away, [], `${pod} while others are away`);
  }

  /** A pod that serves is deleted only beside one of its group that was evicted just now. */
  #checkTogether({ metadata }: Json): void {
    const groupOf = (name: string): string => name.replace(/-\d+$/, '');
    const group = groupOf(metadata.name);
    const [evicted] = this.#disruptions.filter((one) => one.startsWith('evict c-'));
    assert.equal(groupOf(evicted ?? ''), `evict ${group}`, `${metadata.name} is not evicted`);
    const others = this.#world.unreadyNodes().filter((name) => groupOf(name) !== group);
    assert.deepEqual(others, [], `${metadata.name} goes with one of its group`);
    const { replicasPerGroup, maxUnavailable } = this.#world.cluster.spec.nodes;
    const away = this.#world.unreadyNodes().length + 1;
    assert.ok(away <= Math.min(maxUnavailable ?? 1, replicasPerGroup), `${away} of ${group} away`);
    const ids = this.#world.instanceIds().filter((name) => groupOf(name) === group);
    this.#checkDoubts([metadata.name].filter((name) => ids.includes(name)));
  }

  #checkDelete(target: string, body: Json): void {
    const [kind, name] = target.split('/') as [string, string];
    if (kind === 'PersistentVolumeClaim') {
      // Of a member that etcd has removed, or that does not start with it; or of a machine that is
      // gone, while the others have all that it had.
      const pod = name.slice('data-'.length);
      const { phase } = this.#world.kube.find('PersistentVolumeClaim', name)!['status'] as Json;
      if (phase === 'Pending') return;
      if (name.startsWith('data-c-etcd-')) {
        assert.equal(this.#world.etcd.isRunning(pod), false);
        return;
      }
      if (this.#isGoneGroup(pod)) return;
      // It has no shards.
      if (!this.#world.instanceIds().includes(pod)) return;
      if (!this.#world.isMachineLost(pod)) this.#checkClass(pod, body);
      const states = this.#world.shardStates((id) => id !== pod);
      assert.ok(
        states.every((state) => state === 'AVAILABLE'),
        `${name} while others are filled`,
      );
      this.#checkDoubts([pod]);
      return;
    }
    if (kind === 'Pod') {
      if (this.#world.isReady(name)) this.#checkTogether(body);
      return;
    }
    if (kind === 'StatefulSet') {
      const isNamed = this.#world.cluster.spec.isolationGroups.some(
        (group: Json) => name === `c-${group.name}`,
      );
      const placed = this.#world.instanceIds().filter((id) => id.replace(/-\d+$/, '') === name);
      // One with pods is made anew over them.
      if (!isNamed && body.spec.replicas === 0) assert.deepEqual(placed, [], `${name} has shards`);
    }
    const owner = body.metadata.ownerReferences?.[0];
    assert.equal(owner?.uid, this.#world.cluster.metadata.uid, `${target} is not ours`);
  }

  #checkSet(name: string, body: Json): void {
    const live = this.#world.kube.find('StatefulSet', name);
    const placed = this.#world
      .instanceIds()
      .filter((id) => id.replace(/-\d+$/, '') === name)
      .map((id) => Number(/\d+$/.exec(id)![0]) + 1);
    const before = live?.spec.replicas ?? 0;
    const after = body.spec.replicas;
    if (after < before) this.#disrupt(`shrink ${name}`);
    // Even one that somebody made too small is never made smaller than its shards need.
    assert.ok(after >= before || after >= Math.max(0, ...placed), `${name}: ${before} → ${after}`);
  }

  #checkCall(call: string): void {
    const [verb, ...ids] = call.split(' ') as [string, ...string[]];
    if (verb === 'namespace') return;
    assert.notEqual(this.#world.cluster.spec.paused, true, `${call} while paused`);
    this.#disrupt(call);
    if (verb === 'init') {
      assert.deepEqual(this.#world.instanceIds(), []);
      return;
    }
    // Those that never had a shard are taken back whatever else is broken.
    if (verb === 'remove' && ids.every((id) => this.#world.isEmptyInstance(id))) return;
    if (verb === 'remove') this.#checkDoubts(ids);
    assert.ok(
      this.#world.shardStates().every((state) => state === 'AVAILABLE'),
      `${call} while shards move`,
    );
    const groupOf = (id: string): string => id.replace(/-\d+$/, '');
    const placed = this.#world.instanceIds();
    const wanted: string[] = this.#world.cluster.spec.isolationGroups.map(
      ({ name }: Json) => `c-${name}`,
    );
    // A new group may take the place of one that leaves and is lost.
    const isNew = verb === 'add' && placed.every((id) => groupOf(id) !== groupOf(ids[0] ?? ''));
    const staying = placed.filter(
      (id) => !ids.includes(id) && !(isNew && !wanted.includes(groupOf(id))),
    );
    const down = staying.filter((id) => !this.#world.isReady(id));
    assert.deepEqual(down, [], `${call} while nodes are down`);
  }

  /** All is well again. */
  async end(): Promise<void> {
    const world = this.#world;
    this.trace.push('all is well');
    this.#failIn = Number.POSITIVE_INFINITY;
    world.coordinatorUp = true;
    world.broken.clear();
    world.lacking.clear();
    world.changeSpec((spec) => {
      spec.paused = false;
      delete spec.maintenanceWindows;
      spec.updatePolicy = 'Automatic';
      if (spec.nodes.image === 'node:bad') spec.nodes.image = 'node:9';
      for (const component of [spec.nodes, spec.etcd, spec.coordinator]) {
        delete component?.podTemplate?.spec.serviceAccountName;
      }
      // A volume that was asked larger cannot become smaller again.
      if (spec.nodes.storage !== undefined) {
        spec.nodes.storage.size = '400Gi';
        if (spec.nodes.storage.className === 'no-disk') spec.nodes.storage.className = 'fast-disk';
      }
    });
    for (let pass = 0; !(await this.#isAtRest()); pass++) {
      const ready = JSON.stringify(world.condition('Ready'));
      assert.ok(pass < 200, `it comes to rest: ${ready}`);
    }
    assert.equal(world.condition('Ready')?.status, 'True');
    const { replicasPerGroup } = world.cluster.spec.nodes;
    const named: string[] = world.cluster.spec.isolationGroups.map(({ name }: Json) => name);
    const sets = world.kube.ofKind('StatefulSet').map(({ metadata }) => metadata.name);
    assert.deepEqual(sets.sort(), [...named.map((name) => `c-${name}`), 'c-etcd'].sort());
    const wanted = named.flatMap((group) =>
      Array.from({ length: replicasPerGroup }, (_, ordinal) => `c-${group}-${ordinal}`),
    );
    assert.deepEqual(world.instanceIds().sort(), wanted.sort());
    const image = world.cluster.spec.nodes.image ?? 'node:1';
    for (const name of wanted) {
      assert.equal(world.kube.find('Pod', name).spec.containers[0].image, image, name);
    }
    const { etcd, coordinator } = world.cluster.spec;
    const members = Array.from({ length: etcd?.replicas ?? 3 }, (_, at) => `c-etcd-${at}`);
    assert.deepEqual(world.etcd.voters, members);
    for (const name of members) {
      const pod = world.kube.find('Pod', name);
      assert.equal(pod.spec.containers[0].image, etcd?.image ?? 'etcd:1', name);
    }
    const deployment = world.kube.find('Deployment', 'c-coordinator');
    const [container] = deployment.spec.template.spec.containers;
    assert.equal(container.image, coordinator?.image ?? 'coordinator:1');
    const namespaces = world.cluster.status.namespaces.map(({ name }: Json) => name).sort();
    const claimed = world.kube.ofKind('TSDBNamespace').map(({ metadata }) => metadata.name);
    assert.deepEqual(namespaces, ['default', ...claimed].sort());
  }

  /** One pass in which nothing was written. */
  async #isAtRest(): Promise<boolean> {
    const { kube, calls, clock } = this.#world;
    const writes = kube.writes.length + calls.length;
    this.#disruptions = [];
    this.trace.push('pass');
    let after: number | null = null;
    try {
      after = await this.#world.reconcile();
    } catch (error) {
      this.trace.push(`  failed: ${(error as Error).message}`);
    }
    if (this.#violation !== null) throw this.#violation;
    await clock.pass(11_000);
    await this.#world.advance();
    return after === 60_000 && kube.writes.length + calls.length === writes;
  }
}
