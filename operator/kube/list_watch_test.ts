import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLog } from '#lib/log.ts';
import { type KubeObject, resource } from '../resource/kube_objects.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';
import { KubeError, type KubeList, type KubeWatchEvent } from './kube_api.ts';
import { listAndWatch } from './list_watch.ts';
import { watchChanges } from './watches.ts';

const pod = (name: string, resourceVersion: string): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default', resourceVersion },
});

/** A server that answers lists and watches as it is told, one after the other. */
class Server {
  readonly lists: (readonly KubeObject[] | Error)[] = [];
  /** Version from which each watch was asked. */
  readonly watchedFrom: string[] = [];
  listCount = 0;
  version = 100;
  #current: ((event: KubeWatchEvent | 'end' | Error) => void) | null = null;

  list(): Promise<KubeList> {
    this.listCount++;
    const answer = this.lists.length > 1 ? this.lists.shift()! : (this.lists[0] ?? []);
    if (answer instanceof Error) return Promise.reject(answer);
    return Promise.resolve({ items: answer, resourceVersion: String(this.version) });
  }

  async *watch(
    _resource: unknown,
    _namespace: unknown,
    _selector: unknown,
    from: string,
    signal: AbortSignal,
  ): AsyncGenerator<KubeWatchEvent> {
    this.watchedFrom.push(from);
    const queue: (KubeWatchEvent | 'end' | Error)[] = [];
    let wake = () => {};
    this.#current = (event) => {
      queue.push(event);
      wake();
    };
    signal.addEventListener('abort', () => this.#current?.('end'), { once: true });
    for (;;) {
      const next = queue.shift();
      if (next === undefined) await new Promise<void>((resolve) => (wake = resolve));
      else if (next === 'end') return;
      else if (next instanceof Error) throw next;
      else yield next;
    }
  }

  send(event: KubeWatchEvent | 'end' | Error): void {
    this.#current!(event);
  }
}

function follow(server: Server) {
  const clock = new FakeClock();
  const seen: string[] = [];
  const stop = new AbortController();
  const options = {
    api: server as never,
    env: fakeEnv(clock),
    log: silentLog,
    resource: resource.pod,
    namespace: null,
    labelSelector: '',
    onObject: ({ metadata }: KubeObject, isGone: boolean) =>
      void seen.push(`${metadata.name}${isGone ? ' gone' : ''}`),
  };
  const ended = listAndWatch(options, stop.signal);
  return {
    clock,
    /** What was told since the last call. */
    take: () => seen.splice(0),
    stop: async () => {
      stop.abort();
      await clock.pass(0);
      await ended;
    },
  };
}

test('everything of the list is told, then every change', async () => {
  const server = new Server();
  server.lists.push([pod('a', '1'), pod('b', '2')]);
  const { clock, take, stop } = follow(server);
  await clock.pass(0);
  assert.deepEqual(take(), ['a', 'b']);
  server.send({ type: 'MODIFIED', object: pod('a', '101') });
  server.send({ type: 'ADDED', object: pod('c', '102') });
  server.send({ type: 'DELETED', object: pod('b', '103') });
  await clock.pass(0);
  assert.deepEqual(take(), ['a', 'c', 'b gone']);
  await stop();
});

test('a watch that the server ends is followed by one from the last version, without a list', async () => {
  const server = new Server();
  const { clock, take, stop } = follow(server);
  await clock.pass(0);
  server.send({ type: 'ADDED', object: pod('a', '105') });
  await clock.pass(240_000);
  server.send('end');
  await clock.pass(0);
  assert.deepEqual(server.watchedFrom, ['100', '105']);
  assert.equal(server.listCount, 1);
  assert.deepEqual(take(), ['a']);
  await stop();
});

test('a bookmark moves the version and tells nothing', async () => {
  const server = new Server();
  const { clock, take, stop } = follow(server);
  await clock.pass(0);
  server.send({ type: 'BOOKMARK', object: pod('', '900') });
  await clock.pass(10_000);
  server.send('end');
  await clock.pass(0);
  assert.deepEqual(server.watchedFrom, ['100', '900']);
  assert.deepEqual(take(), []);
  await stop();
});

test('410 Gone is followed by a new list, which tells also what was deleted meanwhile', async () => {
  const server = new Server();
  server.lists.push([pod('a', '1'), pod('b', '2')], [pod('b', '2'), pod('c', '210')]);
  const { clock, take, stop } = follow(server);
  await clock.pass(0);
  take();
  server.version = 210;
  server.send({ type: 'ERROR', status: 410, message: 'too old resource version' });
  await clock.pass(1_000);
  assert.deepEqual(take(), ['a gone', 'b', 'c']);
  assert.deepEqual(server.watchedFrom, ['100', '210']);
  await stop();
});

test('a failed watch and failed lists are tried again, ever later, at most after 45 s', async () => {
  const server = new Server();
  const { clock, take, stop } = follow(server);
  await clock.pass(0);
  server.lists[0] = new KubeError(500, 'InternalError', 'etcd is away');
  server.send(new KubeError(503, 'ServiceUnavailable', 'restarting'));
  await clock.pass(600_000);
  assert.ok(server.listCount > 15, `${server.listCount} lists in ten minutes`);
  assert.ok(server.listCount < 40, `${server.listCount} lists in ten minutes`);
  server.lists[0] = [pod('a', '1')];
  await clock.pass(45_000);
  assert.deepEqual(take(), ['a']);
  await stop();
});

test('watches that end at once do not follow each other without a pause', async () => {
  const server = new Server();
  const { clock, stop } = follow(server);
  const ending = new AbortController();
  clock.every(
    10,
    () => server.send('end'),
    () => {},
    ending.signal,
  );
  await clock.pass(10_000);
  assert.ok(server.watchedFrom.length <= 12, `${server.watchedFrom.length} watches in 10 s`);
  ending.abort();
  await stop();
});

const cluster = (generation: number, resourceVersion: string, more: object = {}): KubeObject => ({
  apiVersion: 'tsdb.io/v1alpha1',
  kind: 'TSDBCluster',
  metadata: { name: 'c', namespace: 'default', uid: 'u', generation, resourceVersion, ...more },
});

test('a change of a status of ours calls for no pass, any other change does', async () => {
  const servers = new Map<string, Server>();
  const clock = new FakeClock();
  const keys: string[] = [];
  const stop = new AbortController();
  const serverOf = (kind: { readonly kind: string }) =>
    servers.getOrInsertComputed(kind.kind, () => new Server());
  const api = {
    list: (kind: { readonly kind: string }) => serverOf(kind).list(),
    watch: (kind: { readonly kind: string }, ...rest: [unknown, unknown, string, AbortSignal]) =>
      serverOf(kind).watch(kind, ...rest),
  };
  const listed = new Set<string>();
  const options = {
    api: api as never,
    env: fakeEnv(clock),
    log: silentLog,
    namespaces: [],
    onKey: (key: string) => void keys.push(key),
    onListed: (kind: string, isListed: boolean) =>
      void (isListed ? listed.add(kind) : listed.delete(kind)),
  };
  const ended = watchChanges(options, stop.signal);
  await clock.pass(0);
  assert.ok(listed.has('tsdbclusters') && listed.has('pods'), 'it is said what is known');
  const clusters = servers.get('TSDBCluster')!;
  const send = async (kind: string, event: KubeWatchEvent): Promise<string[]> => {
    keys.length = 0;
    servers.get(kind)!.send(event);
    await clock.pass(0);
    return [...keys];
  };
  const told = ['default/c'];
  const modified = (object: KubeObject) => send('TSDBCluster', { type: 'MODIFIED', object });
  assert.deepEqual(await send('TSDBCluster', { type: 'ADDED', object: cluster(1, '1') }), told);
  assert.deepEqual(await modified(cluster(1, '2')), [], 'only the status');
  assert.deepEqual(await modified(cluster(2, '3')), told, 'the spec');
  const annotated = { annotations: { 'tsdb.io/approve': 'x' } };
  assert.deepEqual(await modified(cluster(2, '4', annotated)), told, 'an annotation');
  const deleting = { deletionTimestamp: '2026-01-01T00:00:00Z' };
  assert.deepEqual(await modified(cluster(2, '5', deleting)), told, 'its deletion');
  const gone = { type: 'DELETED', object: cluster(2, '6', deleting) } as const;
  assert.deepEqual(await send('TSDBCluster', gone), told);
  assert.deepEqual(await send('TSDBCluster', { type: 'ADDED', object: cluster(2, '7') }), told);

  const labels = { 'tsdb.io/cluster': 'c' };
  const child = { ...pod('c-a-0', '1'), metadata: { name: 'c-a-0', namespace: 'default', labels } };
  assert.deepEqual(await send('Pod', { type: 'ADDED', object: child }), told);

  const asking = (name: string): KubeObject => ({
    apiVersion: 'tsdb.io/v1alpha1',
    kind: 'TSDBNamespace',
    metadata: { name: 'n', namespace: 'default', uid: name },
    spec: { clusterRef: { name } },
  });
  const asked = (name: string) => send('TSDBNamespace', { type: 'ADDED', object: asking(name) });
  assert.deepEqual(await asked('c'), told);
  // Were it a key, a second worker would look after c.
  for (const name of ['c/x', 'c/', 'c%2F', 'c?', 'C', '', '..'])
    assert.deepEqual(await asked(name), []);
  assert.deepEqual(
    await send('Pod', { type: 'MODIFIED', object: child }),
    told,
    'readiness counts',
  );
  const claim = {
    apiVersion: 'tsdb.io/v1alpha1',
    kind: 'TSDBNamespace',
    metadata: { name: 'n', namespace: 'default', uid: 'n', generation: 1 },
    spec: { clusterRef: { name: 'c' } },
  };
  assert.deepEqual(await send('TSDBNamespace', { type: 'ADDED', object: claim }), told);
  assert.deepEqual(await send('TSDBNamespace', { type: 'MODIFIED', object: claim }), []);
  assert.equal(clusters.listCount, 1);
  stop.abort();
  await clock.pass(0);
  await ended;
});
