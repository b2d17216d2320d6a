/** Cost of the index: insertion, memory, questions of dashboards, removal, save and load. */
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';
import type { IndexQuery } from '#lib/index_query.ts';
import { encodeTags } from '#lib/tags.ts';
import { NamespaceIndex } from './namespace_index.ts';
import { SeededRandom } from '#test/seeded_random.ts';

const blockSizeNanos = 7_200_000_000_000n;
const wholeRange = { startNanos: 0n, endNanos: blockSizeNanos };
const noOptions = { limit: 0, shards: null };
const noId = new Uint8Array(0);
const metricsPerHost = 10;

/** Tags of the usual fleet: ten metrics on each host, ten labels that describe the host. */
function fleetTags(i: number): Uint8Array {
  const host = Math.floor(i / metricsPerHost);
  return encodeTags([
    { name: '__name__', value: `cpu_usage_${i % metricsPerHost}` },
    { name: 'arch', value: ['x64', 'x86'][host % 2]! },
    { name: 'datacenter', value: `region-${host % 9}${'abc'[host % 3]!}` },
    { name: 'hostname', value: `host_${host}` },
    { name: 'os', value: ['Ubuntu16.04LTS', 'Ubuntu16.10', 'Ubuntu15.10'][host % 3]! },
    { name: 'rack', value: `${host % 100}` },
    { name: 'region', value: `region-${host % 9}` },
    { name: 'service', value: `${host % 20}` },
    { name: 'service_environment', value: ['production', 'staging', 'test'][host % 3]! },
    { name: 'service_version', value: `${host % 2}` },
    { name: 'team', value: ['CHI', 'LON', 'NYC', 'SF'][host % 4]! },
  ]);
}

/**
 * Layouts of many series in one buffer, as a batch has them: the collector stays out of the
 * figures.
 */
function fleetLayouts(seriesCount: number): (i: number) => Uint8Array {
  const bytes = new Uint8Array(seriesCount * 320);
  const offsets = new Uint32Array(seriesCount + 1);
  for (let i = 0; i < seriesCount; i++) {
    const tags = fleetTags(i);
    bytes.set(tags, offsets[i]);
    offsets[i + 1] = offsets[i]! + tags.length;
  }
  return (i) => bytes.subarray(offsets[i], offsets[i + 1]);
}

const term = (field: string, value: string): IndexQuery => ({ kind: 'term', field, term: value });
const regexp = (field: string, pattern: string): IndexQuery => ({
  kind: 'regexp',
  field,
  regexp: pattern,
});
const and = (...queries: IndexQuery[]): IndexQuery => ({ kind: 'conjunction', queries });
const not = (query: IndexQuery): IndexQuery => ({ kind: 'negation', query });
const name: IndexQuery = term('__name__', 'cpu_usage_3');

const questions: readonly (readonly [string, IndexQuery])[] = [
  ['name', name],
  ['name and region', and(name, term('region', 'region-4'))],
  [
    'name, region, rack and team',
    and(name, term('region', 'region-4'), term('rack', '13'), term('team', 'LON')),
  ],
  ['name and hostname=~"host_1.*5"', and(name, regexp('hostname', 'host_1.*5'))],
  ['hostname=~"host_1.*5"', regexp('hostname', 'host_1.*5')],
  ['hostname=~"host_[0-9]*5"', regexp('hostname', 'host_[0-9]*5')],
  ['name and one host', and(name, term('hostname', 'host_77'))],
  [
    'one host and region!~"region-[1-3]"',
    and(term('hostname', 'host_77'), not(regexp('region', 'region-[1-3]'))),
  ],
  ['name and hostname!=""', and(name, { kind: 'field', field: 'hostname' })],
  ['name and region!="region-4"', and(name, not(term('region', 'region-4')))],
  ['name and hostname!="host_77"', and(name, not(term('hostname', 'host_77')))],
  ['hostname=~"host_123.*"', regexp('hostname', 'host_123.*')],
  ['hostname=~".*77"', regexp('hostname', '.*77')],
  ['name and hostname=~"host_1|…" of 50', and(name, regexp('hostname', hosts(50)))],
  ['name and region=~"region-[1-4]"', and(name, regexp('region', 'region-[1-4]'))],
  ['name and hostname!~"host_1.*"', and(name, not(regexp('hostname', 'host_1.*')))],
];

function hosts(count: number): string {
  return Array.from({ length: count }, (_, i) => `host_${i * 7 + 1}`).join('|');
}

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const results: BenchResult[] = [];
  const add = (label: string, unit: string, value: number) =>
    results.push({ name: `node/index: ${label}`, unit, value: Number(value.toPrecision(4)) });
  for (const seriesCount of size === 'full' ? [100_000, 1_000_000] : [2_000]) {
    await benchFleet(seriesCount, size === 'full' ? 20 : 2, add);
  }
  return results;
}

type Add = (label: string, unit: string, value: number) => void;

async function benchFleet(seriesCount: number, repetitions: number, add: Add): Promise<void> {
  const label = `${seriesCount} series`;
  const random = new SeededRandom(1);
  const index = new NamespaceIndex({ random, blockSizeNanos });
  const tagsOf = fleetLayouts(seriesCount);
  const order = shuffled(seriesCount, random);
  const batchSeries = 2000;
  let slowest = 0;
  const insertion = cpuMicros(() => {
    for (let start = 0; start < seriesCount; start += batchSeries) {
      const before = performance.now();
      const end = Math.min(seriesCount, start + batchSeries);
      for (let slot = start; slot < end; slot++) {
        const tags = tagsOf(order[slot]!);
        if (index.find(tags, idSchemeCode.quoted, noId) < 0) {
          index.insert(slot, tags, idSchemeCode.quoted, noId, slot % 64);
        }
      }
      slowest = Math.max(slowest, performance.now() - before);
    }
  });
  add(`${label}: find and insert`, 'us/series', insertion / seriesCount);
  add(`${label}: find and insert, slowest ${batchSeries}`, 'ms', slowest);
  const memory = index.memoryBytes - index.textBytes;
  add(`${label}: memory without text`, 'bytes/series', memory / seriesCount);
  add(`${label}: text`, 'bytes/series', index.textBytes / seriesCount);
  const slots = Uint32Array.from({ length: seriesCount }, (_, i) => i);
  const marking = cpuMicros(() => index.markLive(slots, 0n));
  add(`${label}: mark live in a block`, 'ns/series', (marking / seriesCount) * 1000);
  const finding = cpuMicros(() => {
    for (let i = 0; i < seriesCount; i++) index.find(tagsOf(i), idSchemeCode.quoted, noId);
  });
  add(`${label}: find`, 'us/series', finding / seriesCount);
  benchQuestions(index, label, repetitions, add);
  await benchSave(index, label, add);
  benchRemoval(index, label, add);
}

function shuffled(count: number, random: SeededRandom): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, i) => i);
  for (let i = count - 1; i > 0; i--) {
    const other = random.below(i + 1);
    const value = order[i]!;
    order[i] = order[other]!;
    order[other] = value;
  }
  return order;
}

/** Takes all steps. @returns the longest one, ms */
function slowestStep(steps: Iterator<unknown>): number {
  let slowest = 0;
  for (;;) {
    const before = performance.now();
    const { done } = steps.next();
    slowest = Math.max(slowest, performance.now() - before);
    if (done === true) return slowest;
  }
}

async function benchSave(index: NamespaceIndex, label: string, add: Add): Promise<void> {
  let slowest = 0;
  const saving = cpuMicros(() => {
    slowest = slowestStep(index.save());
  });
  add(`${label}: save`, 'CPU ms', saving / 1000);
  add(`${label}: save, slowest step`, 'ms', slowest);
  const sections = [...index.save()];
  const bytes = sections.reduce((sum, section) => sum + section.bytes.length, 0);
  add(`${label}: saved`, 'bytes/series', bytes / index.seriesCount);
  const before = process.cpuUsage();
  for (const section of sections) crc32c(section.bytes);
  const source = {
    kinds: sections.map(({ kind }) => kind),
    read: (section: number) => Promise.resolve(sections[section]!.bytes),
  };
  const options = { random: new SeededRandom(2), blockSizeNanos };
  const loaded = await NamespaceIndex.load(source, options);
  const { user, system } = process.cpuUsage(before);
  add(`${label}: load, checksums too`, 'CPU ms', (user + system) / 1000);
  add(`${label}: memory when loaded`, 'bytes/series', loaded.memoryBytes / loaded.seriesCount);
}

/** A tenth of the series goes: the oldest hosts, as when they are replaced. */
function benchRemoval(index: NamespaceIndex, label: string, add: Add): void {
  const gone = Uint32Array.from({ length: index.seriesCount / 10 }, (_, i) => i);
  let slowest = 0;
  const removing = cpuMicros(() => {
    slowest = slowestStep(index.removeInSteps(gone));
  });
  add(`${label}: remove a tenth`, 'us/series', removing / gone.length);
  add(`${label}: remove a tenth, slowest step`, 'ms', slowest);
}

function benchQuestions(index: NamespaceIndex, label: string, repetitions: number, add: Add): void {
  for (const [question, query] of questions) {
    const cold = cpuMicros(() => index.query(query, wholeRange, noOptions));
    add(`${label}: ${question}, first time`, 'CPU ms', cold / 1000);
    const warm = cpuMicros(() => {
      for (let i = 0; i < repetitions; i++) index.query(query, wholeRange, noOptions);
    });
    add(`${label}: ${question}`, 'CPU ms', warm / 1000 / repetitions);
  }
  const { slots } = index.query(name, wholeRange, { limit: 10_000, shards: null });
  const bundle = cpuMicros(() => {
    for (let i = 0; i < repetitions; i++) index.tagsOf(slots);
  });
  add(`${label}: tags of ${slots.length} series`, 'CPU ms', bundle / 1000 / repetitions);
  const options = { tagNames: [], namesOnly: false, limit: 0, shards: null };
  const values = cpuMicros(() => index.aggregate({ kind: 'all' }, wholeRange, options));
  add(`${label}: all names and values`, 'CPU ms', values / 1000);
  const ofOne = cpuMicros(() => index.aggregate(term('rack', '13'), wholeRange, options));
  add(`${label}: names and values of a rack`, 'CPU ms', ofOne / 1000);
  const ofHosts = { ...options, tagNames: ['hostname'] };
  const hostnames = cpuMicros(() => index.aggregate(name, wholeRange, ofHosts));
  add(`${label}: values of hostname of a name`, 'CPU ms', hostnames / 1000);
  const byName = cpuMicros(() =>
    index.aggregate(name, wholeRange, { ...options, tagNames: ['region'] }),
  );
  add(`${label}: values of region of a name`, 'CPU ms', byName / 1000);
  const namesOnly = cpuMicros(() =>
    index.aggregate(name, wholeRange, { ...options, namesOnly: true }),
  );
  add(`${label}: names of a name`, 'CPU ms', namesOnly / 1000);
  const cardinality = cpuMicros(() => index.statistics({ limit: 10, metricName: '__name__' }));
  add(`${label}: statistics`, 'CPU ms', cardinality / 1000);
}

function cpuMicros(task: () => void): number {
  const before = process.cpuUsage();
  task();
  const { user, system } = process.cpuUsage(before);
  return user + system;
}
