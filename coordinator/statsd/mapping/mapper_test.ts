import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TsdbError } from '#lib/errors.ts';
import { mappingOf } from './file.ts';
import { Mapper } from './mapper.ts';

/** As the name and the labels of what a rule makes, `drop`, or null. */
function namer(mapping: object): (name: string, kind?: 'counter' | 'observer') => string | null {
  const mapper = new Mapper(mappingOf(mapping, 'mapping'));
  return (name, kind = 'counter') => {
    const mapped = mapper.map(name, kind);
    if (mapped === null) return null;
    if (mapped.rule.isDrop) return 'drop';
    return `${mapped.name}{${mapped.labels.map(([label, value]) => `${label}=${value}`).join(',')}}`;
  };
}

test('the first glob that matches names a metric, a "*" being one component', () => {
  const nameOf = namer({
    mappings: [
      {
        match: 'test.dispatcher.*.*.*',
        name: 'dispatcher_events_total',
        labels: { processor: '$1', action: '$2', outcome: '${3}_x', job: 'test' },
      },
      { match: '*.signup.*.*', name: 'signup_$2', labels: { provider: '$2' } },
      { match: 'client.signup.a.b', name: 'never' },
      { match: 'client.*', name: 'of_timer', match_metric_type: 'timer' },
      { match: 'client.*', name: 'of_$1' },
      { match: 'noise.*', action: 'drop' },
    ],
  });
  assert.equal(
    nameOf('test.dispatcher.FooProcessor.send.succeeded'),
    'dispatcher_events_total{processor=FooProcessor,action=send,outcome=succeeded_x,job=test}',
  );
  assert.equal(nameOf('client.signup.a.b'), 'signup_a{provider=a}');
  assert.equal(nameOf('client.x', 'observer'), 'of_timer{}');
  assert.equal(nameOf('client.x'), 'of_x{}');
  assert.equal(nameOf('noise.x'), 'drop');
  assert.equal(nameOf('noise.x.y'), null);
});

test('without an order the glob that says more wins', () => {
  const mappings = [
    { match: 'a.*.*', name: 'least' },
    { match: 'a.*.c', name: 'middle' },
    { match: 'a.b.*', name: 'most' },
  ];
  assert.equal(namer({ mappings })('a.b.c'), 'least{}');
  assert.equal(namer({ defaults: { glob_disable_ordering: true }, mappings })('a.b.c'), 'most{}');
});

test('regexps come behind globs, and have groups', () => {
  const nameOf = namer({
    mappings: [
      {
        match: '^(\\w+)\\.(?P<what>.*)$',
        match_type: 'regex',
        name: '${1}_all',
        labels: { what: '${what}', lost: '$7' },
      },
      { match: 'a.b', name: 'glob' },
    ],
  });
  assert.equal(nameOf('a.b'), 'glob{}');
  assert.equal(nameOf('web.x.y'), 'web_all{what=x.y,lost=}');
});

test('defaults, and the settings of a rule with the names that they had earlier', () => {
  const { rules, defaults } = mappingOf(
    {
      defaults: {
        observer_type: 'histogram',
        histogram_options: { buckets: [0.1, 1] },
        ttl: '5m',
        honor_labels: true,
      },
      mappings: [
        { match: 'a', name: 'a' },
        {
          match: 'b',
          name: 'b',
          timer_type: 'summary',
          quantiles: [{ quantile: 0.75, error: 0.1 }],
          ttl: 0,
        },
        { match: 'c', name: 'c', buckets: [1, 2], scale: 0.001 },
      ],
    },
    'mapping',
  );
  assert.deepEqual(defaults, {
    observer: { type: 'histogram', bounds: [0.1, 1] },
    ttlMillis: 300_000,
    honorsLabels: true,
    scale: 1,
  });
  assert.deepEqual(
    rules.map(({ settings }) => settings),
    [
      defaults,
      {
        ...defaults,
        observer: { type: 'summary', quantiles: [0.75], maxAgeMillis: 600_000 },
        ttlMillis: 0,
      },
      { ...defaults, observer: { type: 'histogram', bounds: [1, 2] }, scale: 0.001 },
    ],
  );
});

test('what is no mapping is refused with its field', () => {
  for (const [rule, reason] of [
    [
      { match: 'a.b*', name: 'x' },
      /mappings\[0\]\.match: "\*" stands for a whole component: "a\.b\*"/,
    ],
    [{ match: 'a..b', name: 'x' }, /match: a component of a glob is empty/],
    [{ match: 'a' }, /name: a rule that maps needs one/],
    [{ match: 'a', name: '1x' }, /name: no name of a metric: "1x"/],
    [{ match: 'a', name: 'x', labels: { 'a-b': 'c' } }, /labels: no name of a label: "a-b"/],
    [{ match: 'a', name: 'x', labels: { a: 1 } }, /labels\.a: not a text: 1/],
    [{ match: '(', match_type: 'regex', name: 'x' }, /mappings\[0\]\.match: .*regexp/],
    [{ match: 'a', name: 'x', buckets: [2, 1] }, /buckets\[1\]: not above the one before: 1/],
    [
      { match: 'a', name: 'x', quantiles: [{ quantile: 2 }] },
      /quantile: not a number from 0 to 1: 2/,
    ],
    [{ match: 'a', name: 'x', ttl: 'soon' }, /ttl/],
    [{ match: 'a', name: 'x', nonsense: 1 }, /unknown field: mapping\.mappings\[0\]\.nonsense/],
    [
      { match: 'a', name: 'x', histogram_options: { native_histogram_bucket_factor: 1.1 } },
      /native histograms are not made/,
    ],
  ] as const) {
    assert.throws(
      () => mappingOf({ mappings: [rule] }, 'mapping'),
      (error) => error instanceof TsdbError && reason.test(error.message),
      `${JSON.stringify(rule)}`,
    );
  }
});
