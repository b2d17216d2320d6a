import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';

const settings = '{carbon: {ingester: {listenAddress: "127.0.0.1:0"}}, graphite: {step: 10s}}';

/** Lines of Carbon, written when this comes back. */
async function send(test: TestCoordinator, lines: readonly string[]): Promise<void> {
  const socket = connect({ host: '127.0.0.1', port: test.coordinator.carbon!.tcpPort });
  socket.end(lines.map((line) => `${line}\n`).join(''));
  socket.resume();
  await once(socket, 'close');
}

interface Rendered {
  readonly target: string;
  readonly tags: Record<string, string>;
  readonly datapoints: readonly (readonly [number | null, number])[];
}

async function render(test: TestCoordinator, query: string): Promise<Rendered[]> {
  const answer = await test.get(`/render?format=json&${query}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json as Rendered[];
}

test('what Carbon wrote is drawn, by patterns and functions', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = Math.floor(nowSeconds() / 10) * 10 - 60;
  const lines = [0, 10, 20, 30].flatMap((offset) => [
    `servers.web1.cpu ${offset} ${start + offset}`,
    `servers.web1.cpu ${offset + 1} ${start + offset + 3}`,
    `servers.web2.cpu ${2 * offset} ${start + offset}`,
    `servers.web1.cpu.system 9 ${start + offset}`,
    `other.web1.cpu 7 ${start + offset}`,
  ]);
  await send(test, lines);
  const window = `from=${start - 1}&until=${start + 30}`;
  const points = (of: (offset: number) => number | null) =>
    [0, 10, 20, 30].map((offset) => [of(offset), start + offset] as const);
  assert.deepEqual(await render(test, `target=servers.*.cpu&${window}`), [
    {
      target: 'servers.web1.cpu',
      tags: { name: 'servers.web1.cpu' },
      datapoints: points((offset) => offset + 1),
    },
    {
      target: 'servers.web2.cpu',
      tags: { name: 'servers.web2.cpu' },
      datapoints: points((offset) => 2 * offset),
    },
  ]);
  const [sum] = await render(test, `target=sumSeries(servers.**.cpu)&${window}`);
  assert.deepEqual(
    sum!.datapoints,
    points((offset) => 3 * offset + 1),
  );
  // What was twenty seconds before.
  const [early] = await render(
    test,
    `target=timeShift(servers.web1.cpu,"-20s")&from=${start + 19}&until=${start + 30}`,
  );
  assert.deepEqual(
    early?.datapoints.map(([value]) => value),
    [1, 11],
  );
  assert.deepEqual(await render(test, `target=no.such&${window}`), []);

  const found = await test.get('/metrics/find?query=servers.web1.*');
  assert.deepEqual(
    (found.json as { text: string; leaf: number }[]).map(({ text, leaf }) => [text, leaf]),
    [
      ['cpu', 0],
      ['cpu', 1],
    ],
  );
  const index = await test.get('/api/v1/graphite/metrics/index.json');
  assert.deepEqual(index.json, [
    'other.web1.cpu',
    'servers.web1.cpu',
    'servers.web1.cpu.system',
    'servers.web2.cpu',
  ]);
});

test('other servers of Graphite are answered in their own formats', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = nowSeconds();
  await send(test, [`a.b.c 1 ${start}`, `a.d 2 ${start}`]);
  const window = `local=1&noCache=1&from=${start - 60}&until=${start}&now=${start}`;
  for (const [format, contentType, begin] of [
    ['pickle', 'application/pickle', '80025d28'],
    ['msgpack', 'application/x-msgpack', 'dd00000001df'],
    ['protobuf', 'application/x-protobuf', '0a'],
  ] as const) {
    const found = await test.get(`/metrics/find/?format=${format}&local=1&query=a.*`);
    assert.equal(found.headers['content-type'], contentType);
    assert.match(found.text, /a\.b[^]*a\.d/);
    const rendered = await test.get(`/render/?format=${format}&target=a.d&${window}`);
    assert.equal(rendered.headers['content-type'], contentType);
    assert.ok(Buffer.from(rendered.bytes).toString('hex').startsWith(begin), format);
  }
});

test('series of all other formats are found by their tags', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = Math.floor(nowSeconds() / 10) * 10 - 30;
  for (const [code, value] of [
    ['200', 5],
    ['500', 1],
  ] as const) {
    const tags = { __name__: 'http_requests', code, job: 'api' };
    assert.equal(
      (await test.post('/api/v1/json/write', { tags, timestamp: start, value })).status,
      200,
    );
  }
  await send(test, [`disk.used;rack=a1 3 ${start}`, `http_requests.path 8 ${start}`]);
  const window = `from=${start - 1}&until=${start}`;
  const named = async (expression: string) =>
    (
      await render(test, `target=${encodeURIComponent(`seriesByTag(${expression})`)}&${window}`)
    ).map(({ target }) => target);
  assert.deepEqual(await named("'name=http_requests','code=~5'"), [
    'http_requests;code=500;job=api',
  ]);
  assert.deepEqual(await named("'job=api'"), [
    'http_requests;code=200;job=api',
    'http_requests;code=500;job=api',
  ]);
  assert.deepEqual(await named("'name=~.+','code!=200'"), [
    'disk.used;rack=a1',
    'http_requests;code=500;job=api',
  ]);
  const [grouped] = await render(
    test,
    `target=groupByTags(seriesByTag('name=http_requests'),'sum','job')&${window}`,
  );
  assert.deepEqual([grouped!.tags['job'], grouped!.datapoints], ['api', [[6, start]]]);
});

test('functions and tags are told to those who help to write targets', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = nowSeconds();
  await send(test, [`disk.used;rack=a1 3 ${start}`, `a.b 1 ${start}`]);
  const all = (await test.get('/functions')).json as Record<string, Record<string, unknown>>;
  assert.equal(all['movingAverage']!['group'], 'Calculate');
  assert.deepEqual(all['sum'], { ...all['sumSeries'], name: 'sum', function: 'sum(*seriesLists)' });
  const scale = (await test.get('/api/v1/graphite/functions/scale')).json as Record<
    string,
    unknown
  >;
  assert.equal(scale['function'], 'scale(seriesList, factor)');
  assert.equal((await test.get('/functions/nope')).status, 404);
  const grouped = (await test.get('/functions?grouped=1')).json as Record<string, object>;
  assert.ok('scale' in grouped['Transform']!);

  assert.deepEqual((await test.get('/tags/autoComplete/tags')).json, ['name', 'rack']);
  assert.deepEqual((await test.get('/tags/autoComplete/values?tag=name')).json, ['disk.used']);
  assert.deepEqual((await test.get('/tags/findSeries?expr=rack=a1')).json, ['disk.used;rack=a1']);
  const rack = (await test.get('/tags/rack')).json as { values: object[] };
  assert.deepEqual(rack.values, [{ id: 1, value: 'a1', count: 1 }]);
});

test('mistakes are told with their reason', async () => {
  await using test = await TestCoordinator.openReady(settings);
  for (const [path, reason] of [
    ['/render?target=a', /format: pictures are not drawn: png, .*ask for json/],
    ['/render?target=a&format=svg', /format: pictures are not drawn: svg/],
    ['/render?target=a&format=xml', /format: none of .*: xml/],
    ['/render?target=nope(a)&format=json', /nope/],
    ['/render?target=a{b&format=json', /a brace has no end/],
    ['/render?target=a&format=json&from=yesterdayish', /cannot read time/],
    ['/render?target=a&format=json&tz=Mars/Base', /time zone/],
    ['/render?target=a&format=json&from=now', /range of time is empty/],
    ['/render?target=a&format=json&jsonp=alert(1)', /jsonp: not the name of a function/],
    ['/render?target=a&format=json&xFilesFactor=2', /xFilesFactor: not between 0 and 1/],
    [
      `/render?target=a&format=json${Array.from({ length: 101 }, (_, k) => `&template[v${k}]=x`).join('')}`,
      /template: more than 100 variables: 101/,
    ],
    [`/render?target=a&format=json&from=-${'1s'.repeat(101)}`, /cannot read time: longer than 200/],
    ['/render?target=time("x",1)&format=raw&from=-5000000s', /a series of more than 4194304 rows/],
    ['/metrics/find', /query: missing/],
    ['/metrics/find?query=a&format=xml', /format: none of/],
    ['/metrics/find?query=a{b', /unbalanced/],
  ] as const) {
    const answer = await test.get(path);
    assert.equal(answer.status, 400, `${path}: ${answer.text}`);
    assert.match(answer.text, reason, `${path}: ${answer.text}`);
  }
});

test('tagged series are asked for by their names, and tags by the names that Carbon was sent', async () => {
  await using test = await TestCoordinator.openReady(settings);
  const start = Math.floor(nowSeconds() / 10) * 10 - 60;
  await send(test, [
    `cpu;data-center=eu;host=a 1 ${start}`,
    `m;ip=x;ip2=y 4 ${start}`,
    `cpu;data-center=eu 2 ${start}`,
    `cpu;data-center=us;host=a 3 ${start}`,
  ]);
  const own = 'cpu;data_center=eu;host=a';
  const window = `from=${start - 1}&until=${start}`;
  const asked = async (target: string): Promise<readonly (readonly [string, number | null])[]> =>
    (await render(test, `target=${encodeURIComponent(target)}&${window}`)).map(
      ({ target: name, datapoints }) => [name, datapoints[0]![0]],
    );
  assert.deepEqual(await asked(own), [[own, 1]]);
  assert.deepEqual(await asked('cpu;host=a;data-center=eu'), [[own, 1]]);
  // In whatever order tags stand whose names begin alike.
  for (const name of ['m;ip=x;ip2=y', 'm;ip2=y;ip=x']) {
    assert.deepEqual(await asked(name), [['m;ip=x;ip2=y', 4]]);
  }
  // Not those that have other tags besides.
  assert.deepEqual(await asked('cpu;data-center=eu'), [['cpu;data_center=eu', 2]]);
  assert.deepEqual(await asked('cpu;data-center=none'), []);
  assert.deepEqual(await asked('scale(cpu;data-center=us;host=a,2)'), [
    ['scale(cpu;data_center=us;host=a,2)', 6],
  ]);
  const byTag = `seriesByTag('name=cpu','data-center=eu')`;
  assert.deepEqual(await asked(`aliasByTags(${byTag},'data-center')`), [
    ['eu', 2],
    ['eu', 1],
  ]);
  assert.deepEqual(await asked(`groupByTags(seriesByTag('name=cpu'),'sum','data-center')`), [
    ['cpu;data-center=eu', 3],
    ['cpu;data-center=us', 3],
  ]);
  const json = async (path: string): Promise<unknown> => (await test.get(path)).json;
  assert.deepEqual(await json('/tags/findSeries?expr=data-center=eu&expr=host=a'), [own]);
  assert.deepEqual(await json('/tags/autoComplete/values?tag=data-center'), ['eu', 'us']);
  assert.deepEqual(await json('/tags/autoComplete/tags?expr=data-center=eu'), ['host', 'name']);
  const { values } = (await json('/tags/data-center')) as { values: readonly object[] };
  assert.deepEqual(values, [
    { id: 1, value: 'eu', count: 2 },
    { id: 2, value: 'us', count: 1 },
  ]);
  const bad = await test.get(
    `/render?format=json&target=${encodeURIComponent('cpu;host')}&${window}`,
  );
  assert.equal(bad.status, 400);
  assert.match(bad.text, /a tag is not in the form tag=value: .*cpu;host/);
});
