/** Packets of statsd with what statsd, statsdaemon and statsd_exporter make of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseLine, type StatsdEvent } from '../../../coordinator/statsd/lines/line.ts';
import { allDialects } from '../../../coordinator/statsd/lines/names.ts';
import { LineReader } from '../../../coordinator/statsd/lines/reader.ts';
import { GraphiteSeries } from '../../../coordinator/statsd/series/graphite.ts';
import { hasSuites, readSuite } from '../suites.ts';

interface ExpectedEvent {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'observer';
  readonly value: number | 'not finite';
  readonly labels: Readonly<Record<string, string>>;
  readonly relative?: boolean;
}

interface Case {
  readonly id: string;
  readonly packet: string;
  readonly statsd_exporter: readonly ExpectedEvent[];
  readonly agree: boolean;
}

interface Flush {
  readonly name: string;
  readonly packets: readonly string[];
  readonly config: {
    readonly flushInterval: number;
    readonly pctThreshold: readonly number[];
    readonly histogram: readonly { readonly metric: string; readonly bins: readonly number[] }[];
  };
  readonly expected: {
    readonly counters: Readonly<Record<string, number>>;
    readonly counter_rates: Readonly<Record<string, number>>;
    readonly gauges: Readonly<Record<string, number>>;
    readonly timer_data: Readonly<
      Record<string, Readonly<Record<string, number | Readonly<Record<string, number>>>>>
    >;
    readonly set_counts: Readonly<Record<string, number>>;
  };
}

const suite = 'lines/statsd.json';

if (hasSuites(suite)) {
  const { cases, flush } = readSuite<{ cases: readonly Case[]; flush: readonly Flush[] }>(suite);

  test('packets are read as statsd_exporter does, and sets beside', () => {
    assert.ok(cases.length >= 97, `${cases.length}`);
    let agreed = 0;
    for (const { id, packet, statsd_exporter: expected, agree } of cases) {
      agreed += agree ? 1 : 0;
      const events = packet
        .split('\n')
        .filter((line) => line !== '')
        .flatMap((line) => parseLine(line, allDialects).events);
      const sets = events.filter(({ type }) => type === 'set').length;
      const isOfSets = /^uniques:(765|hello world)\|s$/m.test(packet);
      assert.equal(sets, isOfSets ? 1 : 0, id);
      assert.deepEqual(events.flatMap(shown), expected.map(plain), `${id}: ${packet}`);
    }
    assert.ok(agreed >= 61, `${agreed}`);
  });

  test('a flush to Graphite is what statsd makes of its packets', () => {
    assert.ok(flush.length >= 19, `${flush.length}`);
    for (const { name, packets, config, expected } of flush) {
      const form = {
        prefix: 'stats',
        hasLegacyNamespace: false,
        percentThresholds: config.pctThreshold,
        histograms: config.histogram,
        ttlMillis: 0,
      };
      const series = new GraphiteSeries(form, 1000, config.flushInterval);
      const reader = new LineReader(series, allDialects, 1);
      for (const packet of packets) reader.read(Buffer.from(packet));
      const lines = [...series.lines(() => config.flushInterval)].flatMap((each) => [...each]);
      const paths = lines.map((line) => {
        const [path, value, time] = line.split(' ');
        assert.equal(time, `${config.flushInterval / 1000}\n`);
        return `${path} ${rounded(Number(value))}`;
      });
      assert.deepEqual(paths.sort(), pathsOf(expected), name);
    }
  });
}

/** Paths with their values, as statsd's flush has them. */
function pathsOf({
  counters,
  counter_rates,
  gauges,
  timer_data,
  set_counts,
}: Flush['expected']): string[] {
  const all: [path: string, value: number][] = [];
  const add = (prefix: string, key: string, suffix: string, value: number): void => {
    const [name, ...tags] = key.split(';');
    all.push([[`stats.${prefix}.${name!}${suffix}`, ...tags].join(';'), value]);
  };
  for (const [key, value] of Object.entries(counters)) add('counters', key, '.count', value);
  for (const [key, value] of Object.entries(counter_rates)) add('counters', key, '.rate', value);
  for (const [key, value] of Object.entries(gauges)) add('gauges', key, '', value);
  for (const [key, value] of Object.entries(set_counts)) add('sets', key, '.count', value);
  for (const [key, of] of Object.entries(timer_data)) {
    for (const [name, value] of Object.entries(of)) {
      const values = typeof value === 'number' ? { '': value } : value;
      for (const [part, each] of Object.entries(values))
        add('timers', key, `.${name}${part === '' ? '' : `.${part}`}`, each);
    }
  }
  return all.map(([path, value]) => `${path} ${rounded(value)}`).sort();
}

/** What statsd_exporter makes of it: it knows no sets, and has seconds for timers. */
function shown({ type, name, labels, value, times, isRelative }: StatsdEvent): object[] {
  if (type === 'set') return [];
  const kind = type === 'counter' || type === 'gauge' ? type : 'observer';
  const event = {
    name,
    type: kind,
    value: rounded(type === 'timer' ? value / 1000 : value),
    labels: Object.fromEntries(labels),
    isRelative,
  };
  return Array<object>(Math.floor(times)).fill(event);
}

function plain({ name, type, value, labels, relative = false }: ExpectedEvent): object {
  return {
    name,
    type,
    value: rounded(value === 'not finite' ? Number.NaN : value),
    labels,
    isRelative: relative,
  };
}

function rounded(value: number): number {
  return Number(value.toPrecision(12));
}
