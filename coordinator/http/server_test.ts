import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { bodyBytesMax } from '#engine/write_decoder/core.ts';
import { writeBodyBytesMax } from '#lib/config/schema/coordinator_schema.ts';
import { httpRequest } from '#lib/env/http.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { overriding } from '#test/overriding.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

test('unknown paths get 404 and wrong methods 405, in the error shape', async () => {
  await using test = await TestCoordinator.open();
  const missing = await test.get('/api/v1/nothing');
  assert.equal(missing.status, 404);
  assert.deepEqual(missing.json, {
    status: 'error',
    errorType: 'not_found',
    error: 'path is not served: /api/v1/nothing; GET / says what is',
  });
  for (const path of ['/api/v1/compat/remote/write', '/api/v1/json/write']) {
    const wrong = await test.get(path);
    assert.equal(wrong.status, 405, path);
    assert.equal(wrong.headers['allow'], 'POST');
    assert.equal(wrong.json.status, 'error');
  }
  assert.equal((await test.get('/api/v1/label/%ff/values')).status, 400);
});

test('bodies over the limit get 400, and 503 while too many bytes are in flight', async () => {
  await using test = await TestCoordinator.openReady(
    '{limits: {maxWriteBodyBytes: 1000, maxWriteBytesInFlight: 1000}}',
  );
  const path = '/api/v1/compat/remote/write';
  const large = await test.post(path, new Uint8Array(1001));
  assert.equal(large.status, 400);
  assert.match(large.json.error, /larger than 1000 bytes/);
  const slow = connect(test.coordinator.api.port, '127.0.0.1');
  slow.on('error', () => {});
  slow.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 401\r\n\r\n${'x'.repeat(400)}`,
  );
  // It holds the room of what has come of its body once that is seen.
  let busy = await test.post(path, new Uint8Array(700));
  while (busy.status !== 503) busy = await test.post(path, new Uint8Array(700));
  assert.equal(busy.headers['retry-after'], '5');
  slow.destroy();
  const small = await test.post(path, new Uint8Array(500));
  assert.equal(small.status, 400, 'nothing is held by refused requests: this one is read');
});

test('the configuration takes bodies of writes as long as the write decoder does', () => {
  assert.equal(writeBodyBytesMax, bodyBytesMax);
});

test('without a ready namespace writes and queries get 503 with Retry-After', async () => {
  await using test = await TestCoordinator.open();
  const row = { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 };
  for (const answer of [
    await test.post('/api/v1/json/write', row),
    await test.get('/api/v1/query?query=up'),
    await test.get('/api/v1/labels'),
  ]) {
    assert.equal(answer.status, 503);
    assert.equal(answer.headers['retry-after'], '5');
    assert.match(answer.json.error, /unaggregated namespace is not yet initialized/);
  }
});

test('who has never read the key-value store says so, and is no endpoint', async () => {
  const store = new MemoryKvStore({ clock: realEnv.clock }).client();
  let isAway = true;
  const reach = (): void => {
    if (isAway) throw new TsdbError('UNAVAILABLE', 'etcd cannot be reached');
  };
  const kv = overriding(store, {
    list: async (...all) => {
      reach();
      return store.list(...all);
    },
  });
  await using test = await TestCoordinator.openOn(kv);
  const probe = '/health?knowsCluster=true';
  assert.equal((await test.get('/health')).status, 200, 'it runs');
  assert.deepEqual(
    [(await test.get(probe)).status, (await test.get(probe)).json.knowsCluster],
    [503, false],
  );
  const query = await test.get('/api/v1/query?query=up');
  assert.equal(query.status, 503);
  assert.match(query.json.error, /the key-value store has not been read yet/);
  isAway = false;
  await test.topology.whenLoaded(new AbortController().signal);
  isAway = true;
  assert.equal((await test.get(probe)).status, 200, 'it goes on by what it knows');
});

test('health, readiness, routes, build information and metadata are answered', async () => {
  await using test = await TestCoordinator.openReady();
  const health = await test.get('/health');
  assert.match(health.json.uptime, /^[\d.]+(ms|s|m)/);
  assert.match(health.json.now, /^\d{4}-\d\d-\d\dT/);
  const ready = await test.get('/ready');
  assert.equal(ready.status, 200);
  assert.deepEqual(ready.json.readyReads, [
    {
      id: 'default',
      attributes: { metricsType: 'unaggregated', retention: '12h0m0s', resolution: '0s' },
    },
  ]);
  assert.deepEqual(ready.json.notReadyWrites, []);
  const { routes } = (await test.get('/routes')).json;
  for (const path of ['/api/v1/query_range', '/api/v1/placement/init', '/ready']) {
    assert.ok(routes.includes(path), path);
  }
  const buildinfo = await test.get('/api/v1/status/buildinfo');
  assert.equal(buildinfo.json.data.application, 'tsdb');
  assert.deepEqual((await test.get('/api/v1/metadata')).json, { status: 'success', data: {} });
});

test('readiness is 503 while the nodes of a ready namespace do not answer', async () => {
  await using test = await TestCoordinator.openReady();
  const { TsdbError } = await import('#lib/errors.ts');
  test.node.failure = new TsdbError('BAD_REQUEST', 'no such namespace');
  const ready = await test.get('/ready');
  assert.equal(ready.status, 503);
  assert.equal(ready.json.notReadyReads[0].id, 'default');
});

test('/ is a page with links that work, and unknown paths point to it', async () => {
  await using test = await TestCoordinator.openReady();
  const page = await test.get('/');
  assert.equal(page.status, 200);
  assert.equal(page.headers['content-type'], 'text/html; charset=utf-8');
  assert.match(page.text, /<h1>tsdb 0\.0\.0<\/h1>/);
  assert.match(page.text, /Metrics of this process are on port \d+, <code>\/metrics<\/code>/);
  const paths = [...page.text.matchAll(/href="([^"]+)"/g)].map(([, path]) => path!);
  assert.ok(paths.includes('/ready'));
  const { routes } = (await test.get('/routes')).json;
  for (const path of paths) assert.ok(routes.includes(path), path);
  const unknown = await test.get('/nowhere');
  assert.equal(unknown.status, 404);
  assert.match(unknown.json.error, /^path is not served: \/nowhere; GET \/ says what is$/);
});

test('readiness is 503 for writes alone while the nodes refuse them', async () => {
  await using test = await TestCoordinator.openReady();
  test.node.writesRefused = 'cannot write to the commit log: no space';
  const ready = await test.get('/ready');
  assert.equal(ready.status, 503);
  assert.equal(ready.json.readyReads[0].id, 'default');
  assert.deepEqual(ready.json.readyWrites, []);
  assert.equal(ready.json.notReadyWrites[0].id, 'default');
  assert.equal((await test.get('/-/ready')).status, 503);
  assert.equal((await test.get('/ready?writes=false')).status, 200);
  test.node.writesRefused = '';
  assert.equal((await test.get('/ready')).status, 200);
});

test('the metrics listener serves the coordinator’s own metrics', async () => {
  await using test = await TestCoordinator.openReady();
  await test.post('/api/v1/json/write', { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 });
  const { signal } = new AbortController();
  const { port } = test.coordinator.metricsServer;
  const options = { method: 'GET', responseBytesMax: 1 << 20 };
  const answer = await httpRequest(`http://127.0.0.1:${port}/metrics`, options, signal);
  const text = new TextDecoder().decode(answer.body);
  assert.match(text, /^tsdb_coordinator_written_samples_total\{format="json"\} 1$/m);
  assert.match(
    text,
    /^tsdb_coordinator_requests_total\{path="\/api\/v1\/json\/write",status="200"\} 1$/m,
  );
  assert.match(text, /^tsdb_coordinator_front_series 1$/m);
  const other = await httpRequest(`http://127.0.0.1:${port}/`, options, signal);
  assert.equal(other.status, 404);
});

test('a query is cancelled at the nodes when its client leaves', async () => {
  await using test = await TestCoordinator.openReady();
  const entered = Promise.withResolvers<void>();
  const cancelled = Promise.withResolvers<unknown>();
  test.node.gate = (signal) => {
    entered.resolve();
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        cancelled.resolve(signal.reason);
        reject(signal.reason as Error);
      });
    });
  };
  const socket = connect(test.coordinator.api.port, '127.0.0.1');
  socket.write('GET /api/v1/query?query=up HTTP/1.1\r\nHost: localhost\r\n\r\n');
  await entered.promise;
  socket.destroy();
  await cancelled.promise;
});

test('headers that would change what is read or written are refused under both names, not ignored', async () => {
  await using test = await TestCoordinator.openReady();
  const row = { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 };
  type Call = (headers: Record<string, string>) => Promise<TestAnswer>;
  const write: Call = (headers) => test.post('/api/v1/json/write', row, headers);
  const query: Call = (headers) => test.get('/api/v1/query?query=up', headers);
  const others: Call[] = [
    write,
    (headers) => test.post('/api/v1/import/prometheus', Buffer.from('a 1\n'), headers),
    (headers) => test.post('/api/v1/admin/tsdb/clean_tombstones', '', headers),
  ];
  const reads: Call[] = [
    query,
    (headers) => test.post('/api/v1/compat/remote/read', new Uint8Array(1), headers),
    (headers) => test.get('/prometheus/api/v1/labels', headers),
  ];
  const refused = { 'Map-Tags-JSON': '{"tagMappers":[]}' };
  // Reads know them.
  const refusedOfOthers = {
    ...refused,
    'Restrict-By-Tags-JSON': '{"match":[{"name":"a","type":"EQUAL","value":"b"}]}',
    'Restrict-By-Storage-Policies': '1m:40d',
    'Storage-Policy': '1m:40d',
    'Metrics-Type': 'aggregated',
  };
  for (const [calls, headers] of [
    [reads, refused],
    [others, refusedOfOthers],
  ] as const) {
    for (const call of calls) {
      for (const [name, value] of Object.entries(headers)) {
        for (const prefix of ['TSDB', 'M3']) {
          const answer = await call({ [`${prefix}-${name}`]: value });
          assert.equal(answer.status, 400, answer.text);
          assert.equal(
            answer.json.error,
            `header ${prefix}-${name}: not supported here: ${value}`.slice(0, 150),
          );
        }
      }
    }
  }
  assert.equal(test.node.writeCount, 0);
  const plain = { 'M3-Metrics-Type': 'unaggregated', 'TSDB-Metrics-Type': 'unaggregated' };
  assert.equal((await write(plain)).status, 200);
  assert.equal((await query(plain)).status, 200);
});

test('no path that shows or changes what all data are kept by passes over headers about data', async () => {
  await using test = await TestCoordinator.openReady();
  const { paths } = (await test.get('/api/v1/openapi')).json as {
    paths: Record<string, Record<string, unknown>>;
  };
  const isAdmin = /^\/(?:api\/v1\/(?:database|services|placement|namespace|kvstore|topic)|r2)\b/;
  const calls = Object.entries(paths)
    .filter(([path]) => isAdmin.test(path))
    .flatMap(([path, methods]) => Object.keys(methods).map((method) => [method, path] as const));
  for (const wanted of [
    'post /api/v1/database/create',
    'post /api/v1/kvstore',
    'delete /api/v1/services/m3db/placement',
    'delete /api/v1/services/tsdb/namespace/{id}',
    'post /api/v1/services/m3db/schema',
    'put /r2/v1/namespaces/{set}/ruleset',
    'get /api/v1/topic',
  ]) {
    assert.ok(
      calls.some((call) => call.join(' ') === wanted),
      wanted,
    );
  }
  const headers = [
    ['TSDB-Restrict-By-Tags-JSON', '{"match":[{"name":"a","type":"EQUAL","value":"b"}]}'],
    ['M3-Restrict-By-Tags-JSON', '{"match":[{"name":"a","type":"EQUAL","value":"b"}]}'],
    ['M3-Map-Tags-JSON', '{"tagMappers":[]}'],
    ['M3-Restrict-By-Storage-Policies', '1m:40d'],
    ['TSDB-Storage-Policy', '1m:40d'],
    ['M3-Metrics-Type', 'aggregated'],
  ] as const;
  for (const [method, template] of calls) {
    const path = template.replaceAll(/\{\w+\}/g, 'default');
    for (const [name, value] of headers) {
      const answer = await test.send(method.toUpperCase(), path, undefined, { [name]: value });
      assert.equal(answer.status, 400, `${method} ${path}`);
      assert.match(answer.json.error, new RegExp(`^header ${name}: not supported here: `));
    }
  }
  assert.equal((await test.get('/api/v1/services/m3db/placement')).status, 200);
  // What has nothing of data is answered: a proxy sends them with everything.
  const [forced, value] = headers[0];
  for (const path of ['/api/v1/status/buildinfo', '/health', '/ping', '/api/v1/rules']) {
    assert.ok((await test.get(path, { [forced]: value })).status < 300, path);
  }
});

test('more parameters than anybody needs are refused, before they are read', async () => {
  await using test = await TestCoordinator.openReady();
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const names = 'a&'.repeat(800_000);
  for (const answer of [
    await test.post('/api/v1/query', Buffer.from(`${names}query=1`), form),
    await test.get(`/api/v1/query?${'a&'.repeat(2000)}query=1`),
  ]) {
    assert.equal(answer.status, 400);
    assert.match(answer.json.error, /^more than 1000 parameters: \d+$/);
  }
  const few = await test.post('/api/v1/query', Buffer.from(`${'a&'.repeat(900)}query=1`), form);
  assert.equal(few.status, 200, few.text);
});

test('web pages of other sites neither change anything nor query', async () => {
  await using test = await TestCoordinator.openReady();
  const page = {
    'Content-Type': 'text/plain',
    Origin: 'http://evil.example',
    'Sec-Fetch-Site': 'cross-site',
  };
  const row = { tags: { a: 'b' }, timestamp: nowSeconds(), value: 1 };
  for (const path of [
    '/api/v1/database/create',
    '/api/v1/services/tsdb/namespace/ready',
    '/api/v1/json/write',
    '/api/v1/compat/remote/write',
    '/api/v1/kvstore',
    '/api/v1/placement/set',
    '/api/v1/admin/tsdb/delete_series?match[]=up',
    '/api/v1/nothing',
  ]) {
    const { status, json } = await test.post(path, row, page);
    assert.equal(status, 403, path);
    assert.equal(json.status, 'error');
    assert.equal(json.errorType, 'bad_data');
    assert.match(json.error, /^POST requests of a web page of another origin are refused here/);
  }
  assert.equal((await test.send('DELETE', '/api/v1/namespace/a', undefined, page)).status, 403);
  // An <img> starts these.
  for (const path of [
    '/api/v1/query?query=up',
    '/prometheus/api/v1/query_range?query=up',
    '/api/v1/label/city/values',
    '/api/v1/series/?match[]=up',
    '/api/v1/status/tsdb',
  ]) {
    assert.equal((await test.get(path, page)).status, 403, path);
    assert.notEqual((await test.get(path)).status, 403, path);
  }
  assert.equal((await test.get('/', page)).status, 200);
  assert.equal((await test.get('/health', page)).status, 200);
  const own = { Origin: test.url(''), 'Sec-Fetch-Site': 'same-origin' };
  assert.equal((await test.post('/api/v1/json/write', row, own)).status, 200);
  const { port } = test.coordinator.metricsServer;
  const url = `http://127.0.0.1:${port}/metrics`;
  const text = await (await fetch(url)).text();
  assert.match(text, /^tsdb_coordinator_requests_total\{path="other",status="403"\} 14$/m);
});

test('other names than those of allowedHosts are refused, on the metrics listener too', async () => {
  await using test = await TestCoordinator.open('{allowedHosts: [tsdb.example.com]}');
  const { api, metricsServer } = test.coordinator;
  for (const [port, path] of [
    [api.port, '/health'],
    [metricsServer.port, '/metrics'],
  ] as const) {
    const statusAt = async (host: string) => {
      const request = { method: 'GET', headers: { Host: host }, responseBytesMax: 1 << 20 };
      const url = `http://127.0.0.1:${port}${path}`;
      return (await httpRequest(url, request, new AbortController().signal)).status;
    };
    assert.equal(await statusAt('evil.example.com'), 421);
    assert.equal(await statusAt('tsdb.example.com:7201'), 200);
    assert.equal(await statusAt('localhost:7201'), 200);
  }
  const evil = await test.get('/health', { Host: 'evil.example.com' });
  assert.equal(evil.json.errorType, 'bad_data');
  assert.match(evil.json.error, /allowedHosts of coordinator:/);
});
