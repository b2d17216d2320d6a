import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type NamedType, Names } from './names.ts';

const strategies = [
  'UnderscoreEscapingWithSuffixes',
  'UnderscoreEscapingWithoutSuffixes',
  'NoUTF8EscapingWithSuffixes',
  'NoTranslation',
] as const;

test('names of metrics are translated as each strategy has it', () => {
  // Name, unit, type, and what comes of it by the four strategies.
  const cases: [string, string, NamedType, string, string, string, string][] = [
    [
      'http.requests',
      '',
      'counter',
      'http_requests_total',
      'http_requests',
      'http.requests_total',
      'http.requests',
    ],
    [
      'http.requests.total',
      '1',
      'counter',
      'http_requests_total',
      'http_requests_total',
      'http.requests_total',
      'http.requests.total',
    ],
    [
      'system.filesystem.usage',
      'By',
      'gauge',
      'system_filesystem_usage_bytes',
      'system_filesystem_usage',
      'system.filesystem.usage_bytes',
      'system.filesystem.usage',
    ],
    ['usage', '1', 'gauge', 'usage_ratio', 'usage', 'usage_ratio', 'usage'],
    ['usage.ratio', '1', 'gauge', 'usage_ratio', 'usage_ratio', 'usage_ratio', 'usage.ratio'],
    [
      'speed',
      'm/s',
      'gauge',
      'speed_meters_per_second',
      'speed',
      'speed_meters_per_second',
      'speed',
    ],
    ['io', 'By/s', 'counter', 'io_bytes_per_second_total', 'io', 'io_bytes_per_second_total', 'io'],
    [
      'per_second.io',
      '/s',
      'gauge',
      'per_second_io_per_second',
      'per_second_io',
      'per_second.io_per_second',
      'per_second.io',
    ],
    ['packets', '{packet}', 'counter', 'packets_total', 'packets', 'packets_total', 'packets'],
    [
      'packets',
      '{packet}/s',
      'gauge',
      'packets_per_second',
      'packets',
      'packets_per_second',
      'packets',
    ],
    [
      'latency.seconds',
      's',
      'other',
      'latency_seconds',
      'latency_seconds',
      'latency.seconds',
      'latency.seconds',
    ],
    ['2xx', '', 'gauge', '_2xx', '_2xx', '2xx', '2xx'],
    ['a__b--c', '', 'gauge', 'a_b_c', 'a__b_c', 'a__b--c', 'a__b--c'],
    ['größe', 'foo.bar', 'gauge', 'gr_e_foo_bar', 'gr_e', 'größe_foo.bar', 'größe'],
    ['job:rate', '%', 'gauge', 'job:rate_percent', 'job:rate', 'job:rate_percent', 'job:rate'],
  ];
  for (const [name, unit, type, ...wanted] of cases) {
    const order = strategies.map((strategy) => new Names(strategy));
    assert.deepEqual(
      order.map((names) => names.metric(name, unit, type)),
      wanted,
      name,
    );
  }
});

test('a name of nothing but escapes is none', () => {
  const names = new Names('UnderscoreEscapingWithSuffixes');
  assert.equal(names.metric('---', '', 'gauge'), '');
  assert.equal(names.metric('', '', 'gauge'), '');
  assert.equal(names.label('..'), '');
  assert.equal(names.label(''), '');
});

test('names of labels are escaped but for the strategies that keep them', () => {
  const [escaping, keeping] = [
    new Names('UnderscoreEscapingWithoutSuffixes'),
    new Names('NoTranslation'),
  ];
  const cases = [
    ['http.method', 'http_method'],
    ['2nd', 'key_2nd'],
    ['_private', 'key_private'],
    ['__reserved', '__reserved'],
    ['a..b', 'a__b'],
    ['größe', 'gr__e'],
  ];
  for (const [key, label] of cases) {
    assert.equal(escaping.label(key!), label);
    assert.equal(keeping.label(key!), key);
  }
});

test('units are words', () => {
  const names = new Names('UnderscoreEscapingWithSuffixes');
  for (const [unit, words] of [
    ['s', 'seconds'],
    ['By/s', 'bytes_per_second'],
    ['{request}', ''],
    ['1', ''],
    ['/m', 'per_minute'],
    ['constructor', 'constructor'],
  ]) {
    assert.equal(names.unit(unit!), words);
  }
});
