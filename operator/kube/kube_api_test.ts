/** Requests as a server sees them, and answers in all the pieces in which they may come. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type KubeObject, resource } from '../resource/kube_objects.ts';
import { KubeApi, KubeError, type KubeWatchEvent } from './kube_api.ts';

interface Seen {
  readonly method: string;
  readonly url: URL;
  readonly type: string;
  readonly body: any;
}

/** An API that talks to a server which answers as told; and what the server saw. */
async function connected(
  answer: (response: ServerResponse, seen: Seen) => void,
  run: (api: KubeApi, seen: Seen[]) => Promise<void>,
): Promise<void> {
  const seen: Seen[] = [];
  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const text = Buffer.concat(await request.toArray()).toString();
    const one = {
      method: request.method!,
      url: new URL(request.url!, 'http://localhost'),
      type: request.headers['content-type'] ?? '',
      body: text === '' || !text.startsWith('{') ? text : JSON.parse(text),
    };
    seen.push(one);
    answer(response, one);
  };
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-kubeconfig-'));
  const { port } = server.address() as AddressInfo;
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name: 'c',
        cluster: {
          server: `http://127.0.0.1:${port}`,
          'insecure-skip-tls-verify': true,
        },
      },
    ],
    users: [{ name: 'u', user: { token: 't' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  writeFileSync(join(folder, 'config'), JSON.stringify(config));
  process.env['KUBECONFIG'] = join(folder, 'config');
  const api = await KubeApi.connect();
  try {
    await run(api, seen);
  } finally {
    api.close();
    server.closeAllConnections();
    server.close();
    rmSync(folder, { recursive: true });
  }
}

const { signal } = new AbortController();
const set: KubeObject = {
  apiVersion: 'apps/v1',
  kind: 'StatefulSet',
  metadata: { name: 'c-a', namespace: 'default', resourceVersion: '7' },
};
const say = (response: ServerResponse, status: number, body: object) =>
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));

test('each call is the request that Kubernetes knows', async () => {
  await connected(
    (response) =>
      say(response, 200, { metadata: { resourceVersion: '9' }, items: [{ metadata: {} }] }),
    async (api, seen) => {
      const listed = await api.list(resource.pod, 'default', 'a=b', signal);
      assert.deepEqual(listed, {
        items: [{ metadata: {}, apiVersion: 'v1', kind: 'Pod' }],
        resourceVersion: '9',
      });
      await api.list(resource.cluster, null, '', signal);
      await api.apply(set, signal);
      await api.create(resource.statefulSet, set, signal);
      await api.replace(resource.statefulSet, set, signal);
      await api.mergePatch(resource.cluster, 'default', 'c', 'status', { status: {} }, signal);
      await api.delete(resource.pod, 'default', 'p', { uid: 'u', orphan: false }, signal);
      await api.delete(resource.statefulSet, 'default', 'c-a', { uid: null, orphan: true }, signal);
      assert.deepEqual(
        seen.map(({ method, url }) => `${method} ${url.pathname}${url.search}`),
        [
          'GET /api/v1/namespaces/default/pods?labelSelector=a%3Db',
          'GET /apis/tsdb.io/v1alpha1/tsdbclusters',
          'PATCH /apis/apps/v1/namespaces/default/statefulsets/c-a?fieldManager=tsdb-operator&force=true',
          'POST /apis/apps/v1/namespaces/default/statefulsets',
          'PUT /apis/apps/v1/namespaces/default/statefulsets/c-a',
          'PATCH /apis/tsdb.io/v1alpha1/namespaces/default/tsdbclusters/c/status?fieldManager=tsdb-operator',
          'DELETE /api/v1/namespaces/default/pods/p',
          'DELETE /apis/apps/v1/namespaces/default/statefulsets/c-a',
        ],
      );
      assert.deepEqual(
        [seen[2]!.type, seen[5]!.type],
        ['application/apply-patch+yaml', 'application/merge-patch+json'],
      );
      assert.deepEqual(seen[6]!.body, {
        propagationPolicy: 'Background',
        preconditions: { uid: 'u' },
      });
      assert.deepEqual(seen[7]!.body, { propagationPolicy: 'Orphan' });
    },
  );
});

test('a name from a resource leads to no other object', async () => {
  await connected(
    (response) => say(response, 200, { metadata: {} }),
    async (api, seen) => {
      for (const name of ['../../theirs/secrets/key', '..', '', 'a%2fb']) {
        await assert.rejects(api.get(resource.secret, 'mine', name, signal), {
          code: 'BAD_REQUEST',
          message: `no name of an object of Kubernetes: ${JSON.stringify(name)}`,
        });
        await assert.rejects(api.get(resource.secret, name, 'key', signal), {
          code: 'BAD_REQUEST',
        });
      }
      await api.get(resource.secret, 'mine', 'key?watch=true#x', signal);
      assert.deepEqual(
        seen.map(({ url }) => url.pathname + url.search),
        ['/api/v1/namespaces/mine/secrets/key%3Fwatch%3Dtrue%23x'],
      );
    },
  );
});

test('an error of the server has its status and reason; what is gone is null, or deleted', async () => {
  await connected(
    (response, { url }) =>
      url.pathname.endsWith('/gone')
        ? say(response, 404, { reason: 'NotFound', message: 'no' })
        : url.pathname.endsWith('/proxy')
          ? response.writeHead(502).end('<html>bad gateway</html>')
          : say(response, 409, { reason: 'Conflict', message: 'changed meanwhile' }),
    async (api) => {
      assert.equal(await api.get(resource.pod, 'default', 'gone', signal), null);
      await api.delete(resource.pod, 'default', 'gone', { uid: null, orphan: false }, signal);
      await assert.rejects(api.replace(resource.statefulSet, set, signal), (error: KubeError) => {
        assert.deepEqual([error.status, error.reason], [409, 'Conflict']);
        assert.match(error.message, /changed meanwhile/);
        return true;
      });
      await assert.rejects(
        api.get(resource.pod, 'default', 'proxy', signal),
        (error: KubeError) => {
          assert.deepEqual([error.status, error.reason], [502, 'Unknown']);
          return true;
        },
      );
    },
  );
});

test('a fenced connection reads, and writes nothing once it may not', async () => {
  await connected(
    (response) => say(response, 200, set),
    async (api, seen) => {
      let allowed = true;
      const fenced = api.fenced(() => {
        if (!allowed) throw new Error('the lease is lost');
      });
      await fenced.apply(set, signal);
      allowed = false;
      await fenced.get(resource.statefulSet, 'default', 'c-a', signal);
      await assert.rejects(fenced.apply(set, signal), /the lease is lost/);
      await assert.rejects(
        fenced.delete(resource.pod, 'default', 'p', { uid: null, orphan: false }, signal),
        /the lease is lost/,
      );
      assert.deepEqual(
        seen.map(({ method }) => method),
        ['PATCH', 'GET'],
      );
    },
  );
});

test('a watch yields whole events, in whatever pieces they come, and ends with the server', async () => {
  const lines = [
    { type: 'ADDED', object: { metadata: { name: 'Zürich', resourceVersion: '8' } } },
    { type: 'BOOKMARK', object: { metadata: { resourceVersion: '9' } } },
    { type: 'ERROR', object: { code: 410, message: 'too old' } },
  ];
  const bytes = Buffer.from(lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  await connected(
    (response) => {
      response.writeHead(200);
      const send = (at: number) => {
        if (at >= bytes.length) response.end();
        // Single bytes: also a letter of two is cut.
        else response.write(bytes.subarray(at, at + 1), () => send(at + 1));
      };
      send(0);
    },
    async (api, seen) => {
      const events: KubeWatchEvent[] = [];
      for await (const event of api.watch(resource.pod, null, 'x', '5', signal)) events.push(event);
      assert.deepEqual(events, [
        lines[0],
        lines[1],
        { type: 'ERROR', status: 410, message: 'too old' },
      ]);
      const { searchParams } = seen[0]!.url;
      assert.equal(searchParams.get('resourceVersion'), '5');
      assert.equal(searchParams.get('allowWatchBookmarks'), 'true');
    },
  );
});

test('a watch that the server refuses, and one that breaks off, fail', async () => {
  await connected(
    (response) => say(response, 410, { reason: 'Expired', message: 'too old' }),
    async (api) => {
      const watch = api.watch(resource.pod, null, '', '5', signal);
      await assert.rejects(watch.next(), (error: KubeError) => error.status === 410);
    },
  );
  await connected(
    (response) => {
      response.writeHead(200);
      response.write('{"type":"ADD', () => response.destroy());
    },
    async (api) => {
      await assert.rejects(api.watch(resource.pod, null, '', '5', signal).next());
    },
  );
});

test('an eviction names the very pod, and one that is refused says when to come again', async () => {
  await connected(
    (response, { url }) => {
      if (url.pathname.endsWith('/gone/eviction')) response.writeHead(404).end('{}');
      else {
        const text = JSON.stringify({ reason: 'TooManyRequests', message: 'budget' });
        response.writeHead(429, { 'retry-after': '10' }).end(text);
      }
    },
    async (api, seen) => {
      await api.evict('default', 'gone', 'u1', signal);
      await assert.rejects(api.evict('default', 'p', 'u2', signal), {
        status: 429,
        message: 'budget',
        retryAfterMillis: 10_000,
      });
      assert.equal(seen[1]!.url.pathname, '/api/v1/namespaces/default/pods/p/eviction');
      assert.equal(seen[1]!.body.kind, 'Eviction');
      assert.deepEqual(seen[1]!.body.deleteOptions, { preconditions: { uid: 'u2' } });
    },
  );
});

test('a pod is taken from a machine that does not answer, and a policy is found by its plural', async () => {
  await connected(
    (response) => response.writeHead(200).end('{}'),
    async (api, seen) => {
      const which = { uid: 'u', orphan: false, atOnce: true };
      await api.delete(resource.pod, 'default', 'p', which, signal);
      assert.equal(seen[0]!.body.gracePeriodSeconds, 0);
      const { apiVersion, kind } = resource.networkPolicy;
      await api.apply({ apiVersion, kind, metadata: { name: 'n', namespace: 'default' } }, signal);
      const path = '/apis/networking.k8s.io/v1/namespaces/default/networkpolicies/n';
      assert.equal(seen[1]!.url.pathname, path);
      await api.applyDefinition('x.tsdb.io', 'kind: CustomResourceDefinition', signal);
    },
  );
});
