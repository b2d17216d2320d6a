/** What M3's tools ask beside queries, through the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { decodeSnappy } from '#engine/write_decoder/snappy.ts';
import { nowSeconds, type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';
import { readRequest } from '../remote/requests_testing.ts';

async function opened(
  timestamp: number = nowSeconds(),
  settings?: string,
): Promise<TestCoordinator> {
  const test = await TestCoordinator.openReady(settings);
  const rows = [
    { __name__: 'cpu', host: 'web1', dc: 'eu' },
    { __name__: 'cpu', host: 'web2', dc: 'us' },
    { __name__: 'mem', host: 'db1', job: 'x' },
  ].flatMap((tags, i) => [
    { tags, timestamp: timestamp - 20, value: i },
    { tags, timestamp: timestamp - 10, value: i + 0.5 },
  ]);
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  return test;
}

const base64 = (text: string): string => Buffer.from(text).toString('base64');

test('search shows tags of series with their values, or their names alone', async () => {
  await using test = await opened();
  const search = async (query: string): Promise<unknown> => {
    const answer = await test.get(`/api/v1/search?${query}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  assert.deepEqual(await search('query=host:web.*'), {
    hits: 3,
    tags: [
      { key: '__name__', values: ['cpu'] },
      { key: 'dc', values: ['eu', 'us'] },
      { key: 'host', values: ['web1', 'web2'] },
    ],
  });
  assert.deepEqual(await search('query=host:.*+dc:eu&tag=host&tag=none'), {
    hits: 1,
    tags: [{ key: 'host', values: ['web1'] }],
  });
  assert.deepEqual(await search('query=dc:eu&query=job:.%2B&result=tagNamesOnly'), [
    '__name__',
    'dc',
    'host',
    'job',
  ]);
  assert.deepEqual(await search('query=none:x'), { hits: 0, tags: [] });
  for (const [query, message] of [
    ['', /missing required parameter: query/],
    ['query=host', /query: not in the form name:regexp: host/],
    ['query=host:a&result=all', /result: neither default nor tagNamesOnly: all/],
    ['query=host:(', /regexp/],
  ] as const) {
    const answer = await test.get(`/api/v1/search?${query}`);
    assert.equal(answer.status, 400, query);
    assert.match(answer.json.error, message);
  }
});

test("series are found by M3's matchers", async () => {
  await using test = await opened();
  const found = async (matchers: object[], more = ''): Promise<string[]> => {
    const answer = await test.post(`/search${more}`, { matchers });
    assert.equal(answer.status, 200, answer.text);
    return answer.json.Metrics.map(({ Tags }: any) =>
      Buffer.from(
        Tags.Tags.find(({ Name }: any) => Name === base64('host')).Value,
        'base64',
      ).toString(),
    ).sort();
  };
  const matcher = (type: number, name: string, value = ''): object => ({
    type,
    name: base64(name),
    value: base64(value),
  });
  assert.deepEqual(await found([matcher(0, 'host', 'web1')]), ['web1']);
  assert.deepEqual(await found([matcher(1, 'host', 'web1')]), ['db1', 'web2']);
  assert.deepEqual(await found([matcher(2, 'host', 'web.')]), ['web1', 'web2']);
  assert.deepEqual(await found([matcher(3, 'host', 'web.')]), ['db1']);
  assert.deepEqual(await found([matcher(4, 'job')]), ['db1']);
  assert.deepEqual(await found([matcher(5, 'job')]), ['web1', 'web2']);
  assert.deepEqual(await found([matcher(6, '')]), ['db1', 'web1', 'web2']);
  assert.equal((await found([matcher(6, '')], '?limit=2&requireExhaustive=false')).length, 2);
  assert.equal((await test.post('/search', { matchers: [matcher(7, 'a')] })).status, 400);
  assert.equal((await test.post('/search', { matchers: [{ type: 0, name: '*' }] })).status, 400);
});

test('series that are found have the IDs that storage has, by the scheme that is set', async () => {
  const path = [{ type: 0, name: base64('__g0__'), value: base64('servers') }];
  for (const [scheme, expected] of [
    ['quoted', '{__name__="cpu",dc="eu",host="web1"}'],
    ['prepend_meta', '8,3,2,2,4,4!__name__cpudceuhostweb1'],
    ['legacy', '__name__=cpu,dc=eu,host=web1,'],
  ] as const) {
    await using test = await opened(nowSeconds(), `{tagOptions: {idScheme: ${scheme}}}`);
    const idsOf = async (matchers: object[]): Promise<string[]> => {
      const answer = await test.post('/search', { matchers });
      assert.equal(answer.status, 200, answer.text);
      return answer.json.Metrics.map(({ ID }: any) => Buffer.from(ID, 'base64').toString());
    };
    assert.deepEqual(await idsOf([{ type: 0, name: base64('dc'), value: base64('eu') }]), [
      expected,
    ]);
    const line = Buffer.from(`servers.web1.cpu 1 ${nowSeconds()}\n`);
    assert.equal((await test.post('/api/v1/carbon/write', line)).status, 204);
    assert.deepEqual(await idsOf(path), ['servers.web1.cpu']);
  }
});

test('parse and threshold tell of the examples that M3 has', async () => {
  await using test = await TestCoordinator.openReady();
  const told = async (path: string, query: string): Promise<unknown> => {
    const answer = await test.get(`/api/v1/${path}?query=${encodeURIComponent(query)}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json;
  };
  const fetch = { name: 'fetch' };
  const scalar = { name: 'scalar' };
  const sumOfRate = { name: 'sum', children: [{ name: 'rate', children: [fetch] }] };
  assert.deepEqual(await told('parse', 'foo'), fetch);
  assert.deepEqual(await told('parse', 'sum(a)-3'), {
    name: '-',
    children: [{ name: 'sum', children: [fetch] }, scalar],
  });
  assert.deepEqual(await told('parse', '1 > bool (foo or sum(rate(bar[5m])))'), {
    name: '>',
    children: [scalar, { name: 'or', children: [fetch, sumOfRate] }],
  });
  assert.deepEqual(await told('parse', 'histogram_quantile(0.9, x)'), {
    name: 'histogram_quantile',
    children: [fetch],
  });
  for (const [query, expected] of [
    ['foo', { query: fetch }],
    ['1 > bool 2', { query: { name: '>', children: [scalar, scalar] } }],
    ['foo > bar', { query: { name: '>', children: [fetch, fetch] } }],
    ['up > 13.37', { query: fetch, threshold: { comparator: '>', value: 13.37 } }],
    ['foo == -0.31', { query: fetch, threshold: { comparator: '==', value: -0.31 } }],
    ['0 != bar', { query: fetch, threshold: { comparator: '!=', value: 0 } }],
    [
      '1 <= bool (foo or sum(rate(bar[5m])))',
      {
        query: { name: 'or', children: [fetch, sumOfRate] },
        threshold: { comparator: '>=', value: 1 },
      },
    ],
  ] as const) {
    assert.deepEqual(await told('threshold', query), expected, query);
  }
  assert.equal((await test.get('/api/v1/parse?query=sum(')).status, 400);
});

test('remote read is asked by GET, too, and answers people in JSON', async () => {
  const now = nowSeconds();
  await using test = await opened(now);
  const parameters = new URLSearchParams({
    query: 'sum(rate(cpu{dc="eu"}[1m])) + mem offset 5s',
    start: `${now - 15}`,
    end: `${now}`,
  });
  const path = `/api/v1/prom/remote/read?${parameters}`;
  const { json, status } = await test.get(`${path}&format=json`);
  assert.equal(status, 200);
  const [ofRate, ofMem] = json.queries;
  assert.deepEqual(ofRate.query.matchers, [
    { type: 'EQ', name: '__name__', value: 'cpu' },
    { type: 'EQ', name: 'dc', value: 'eu' },
  ]);
  assert.equal(Date.parse(ofRate.start) / 1000, now - 75);
  assert.deepEqual(ofRate.series[0].tags, [
    ['__name__', 'cpu'],
    ['dc', 'eu'],
    ['host', 'web1'],
  ]);
  const values = ({ series }: any): string[] =>
    series.flatMap(({ datapoints }: any) => datapoints.map(({ val }: any) => val));
  assert.deepEqual(values(ofRate), ['0', '0.5']);
  assert.deepEqual(
    [Date.parse(ofMem.start) / 1000, Date.parse(ofMem.end) / 1000],
    [now - 20, now - 5],
  );
  assert.deepEqual(values(ofMem), ['2', '2.5']);
  const plain = await test.get(path);
  assert.equal(plain.headers['content-encoding'], 'snappy');
  assert.match(Buffer.from(decodeSnappy(plain.bytes, 1 << 20)).toString('latin1'), /web1/);
  const asked = {
    startMillis: (now - 60) * 1000,
    endMillis: now * 1000,
    matchers: [[0, 'host', 'db1']] as const,
  };
  const posted = await test.post('/api/v1/prom/remote/read?format=json', readRequest([asked], []));
  assert.deepEqual(values(posted.json.queries[0]), ['2', '2.5']);
  assert.equal((await test.get('/api/v1/prom/remote/read?query=up&start=1')).status, 400);
});

test('remote read by GET has the time that selectors with @ and in subqueries read', async () => {
  const now = nowSeconds();
  await using test = await opened(now);
  const [start, end] = [now - 100, now - 40];
  const read = async (query: string): Promise<unknown> => {
    const parameters = new URLSearchParams({
      query,
      start: `${start}`,
      end: `${end}`,
      format: 'json',
    });
    const answer = await test.get(`/api/v1/prom/remote/read?${parameters}`);
    assert.equal(answer.status, 200, answer.text);
    return answer.json.queries.map((each: any) => [
      Date.parse(each.start) / 1000 - now,
      Date.parse(each.end) / 1000 - now,
      each.series.flatMap(({ datapoints }: any) => datapoints.map(({ val }: any) => val)),
    ]);
  };
  const rows = ['2', '2.5'];
  assert.deepEqual(await read('mem'), [[-100, -40, []]]);
  assert.deepEqual(await read(`mem @ ${now - 10}`), [[-10, -10, ['2.5']]]);
  assert.deepEqual(await read(`mem[30s] @ ${now}`), [[-30, 0, rows]]);
  assert.deepEqual(await read(`mem[30s] @ ${now} offset 15s`), [[-45, -15, ['2']]]);
  assert.deepEqual(await read('rate(mem[5s] @ start()) or mem @ end()'), [
    [-105, -100, []],
    [-40, -40, []],
  ]);
  assert.deepEqual(await read('max_over_time(mem[1m:5s] offset -40s)'), [[-120, 0, rows]]);
  assert.deepEqual(await read(`max_over_time(rate(mem[5s])[10s:5s] @ ${now})`), [
    [-15, 0, rows.slice(1)],
  ]);
  // Of a subquery in another one each moves what is in it; what is pinned inside of it stays.
  assert.deepEqual(
    await read('max_over_time(max_over_time(mem[10s:5s] offset 10s)[20s:5s] offset -60s)'),
    [[-80, 10, rows]],
  );
  assert.deepEqual(await read(`max_over_time((mem @ ${now - 20})[1h:1m])`), [[-20, -20, ['2']]]);
  const turned = await test.get(
    `/api/v1/prom/remote/read?query=mem+%40+${now}&start=${end}&end=${start}`,
  );
  assert.equal(turned.status, 400);
  assert.match(turned.json.error, /^end: end timestamp must not be before start time/);
});

test('remote read as JSON says in its headers what the others say', async () => {
  const now = nowSeconds();
  await using test = await opened(now);
  const times = `start=${now - 60}&end=${now}`;
  const path = `/api/v1/prom/remote/read?query=mem+or+cpu&${times}`;
  const whole = await test.get(`${path}&format=json`);
  assert.equal(whole.status, 200, whole.text);
  assert.equal(whole.headers['tsdb-results-limited'], undefined);
  const told = (answer: TestAnswer): unknown[] =>
    ['results-limited', 'namespaces', 'unaggregated-series-count', 'metadata-count', 'timeout'].map(
      (name) => answer.headers[`m3-${name}`],
    );
  const asked = {
    startMillis: (now - 60) * 1000,
    endMillis: now * 1000,
  };
  const body = readRequest(
    [
      { ...asked, matchers: [[0, '__name__', 'mem']] },
      { ...asked, matchers: [[0, '__name__', 'cpu']] },
    ],
    [],
  );
  // The second one of its queries finds more than it may.
  const more = 'limit=1&requireExhaustive=false';
  for (const [json, others] of [
    [whole, await test.get(path)],
    [await test.get(`${path}&${more}&format=json`), await test.get(`${path}&${more}`)],
    [
      await test.post(`/api/v1/read?${more}&format=json`, body),
      await test.post(`/api/v1/read?${more}`, body),
    ],
  ] as const) {
    assert.equal(json.status, 200, json.text);
    assert.deepEqual(told(json), told(others));
    assert.equal(json.headers['m3-namespaces'], 'default');
  }
  const cut = await test.get(`${path}&${more}&format=json`);
  assert.match(String(cut.headers['tsdb-results-limited']), /^max_fetch_series_limit_applied,/);
  assert.match(cut.json.warnings.join(), /partial/);
  assert.equal(cut.json.queries[1].series.length, 1);
});

test('a search for series finds a thousand, unless the request says how many, by a header, too', async () => {
  await using test = await TestCoordinator.openReady();
  const rows = Array.from({ length: 1_010 }, (_, i) => ({
    tags: { __name__: 'many', i: `${i}` },
    timestamp: nowSeconds(),
    value: 1,
  }));
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  const found = async (more: string, headers: Record<string, string>): Promise<unknown> => {
    const matchers = [{ type: 0, name: base64('__name__'), value: base64('many') }];
    const answer = await test.post(`/search${more}`, { matchers }, headers);
    assert.equal(answer.status, 200, answer.text);
    return [answer.json.Metrics.length, answer.json.Metadata.Exhaustive];
  };
  assert.deepEqual(await found('', {}), [1_000, false]);
  assert.deepEqual(await found('?limit=', {}), [1_000, false]);
  assert.deepEqual(await found('?limit=5000', {}), [1_010, true]);
  assert.deepEqual(await found('?docsLimit=5000', {}), [1_010, true]);
  for (const name of ['M3-Limit-Max-Series', 'TSDB-Limit-Max-Series', 'M3-Limit-Max-Docs']) {
    assert.deepEqual(await found('', { [name]: '5000' }), [1_010, true], name);
    const few = { [name]: '7', 'M3-Limit-Require-Exhaustive': 'false' };
    assert.deepEqual(await found('?limit=5000', few), [7, false], name);
  }
});

test('the end of a range can be left out', async () => {
  const now = nowSeconds();
  await using test = await opened(now);
  const times = async (more: string): Promise<number[]> => {
    const { json } = await test.get(
      `/m3query/api/v1/query_range?query=vector(1)&start=${now - 20}&end=${now}&step=10${more}`,
    );
    return json.data.result[0].values.map(([seconds]: [number]) => seconds - now);
  };
  assert.deepEqual(await times(''), [-20, -10, 0]);
  assert.deepEqual(await times('&end-exclusive=true'), [-20, -10]);
  const empty = await test.get(
    `/api/v1/query_range?query=up&start=${now}&end=${now}&step=10&end-exclusive=true`,
  );
  assert.equal(empty.status, 400);
});

test('the API describes itself, and what M3 has and we have not says why', async () => {
  await using test = await TestCoordinator.openReady();
  const { json } = await test.get('/api/v1/openapi');
  const { routes } = (await test.get('/routes')).json;
  assert.deepEqual(Object.keys(json.paths).sort(), routes);
  assert.deepEqual(json.paths['/api/v1/services/m3db/placement/{id}'].delete.parameters, [
    { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
  ]);
  const write = json.paths['/api/v1/prom/remote/write'].post;
  assert.deepEqual(Object.keys(write.requestBody.content), ['application/octet-stream']);
  assert.deepEqual(
    write.parameters.map(({ name }: { name: string }) => name),
    ['TSDB-Map-Tags-JSON'],
  );
  for (const path of ['/api/v1/topic', '/api/v1/services/m3coordinator/placement']) {
    const answer = await test.get(path);
    assert.equal(answer.status, 400);
    assert.match(answer.json.error, /here: /);
  }
  assert.equal((await test.get('/api/v1/services/m3db/placement')).status, 200);
});
