/** What it takes to find the rules of a new series among ten thousand. */
import { realEnv } from '#lib/env/real.ts';
import type { Tag } from '#lib/tags.ts';
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { RuleMatcher } from './match.ts';
import { rulesOfFile } from './sets/file.ts';
import { RulesOverTime } from './sets/over_time.ts';
import { ruleSetOf } from './sets/sets_testing.ts';

const storagePolicies = [{ resolution: '1m', retention: '30d' }];
const apps = 500;
const metrics = 2000;

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const rulesCount = size === 'full' ? 10_000 : 100;
  const seriesCount = size === 'full' ? 100_000 : 100;
  const pathRulesCount = size === 'full' ? 100 : 10;
  return [
    ...measured(`${rulesCount} rules`, rulesOf(rulesCount), seriesCount, tagsOf),
    ...changed(rulesCount, seriesCount / 10),
    ...measured(
      `${pathRulesCount} of paths by their beginning`,
      pathRulesOf(pathRulesCount, (at) => `^app${at}\\.web[0-9]+\\.cpu`),
      seriesCount / 10,
      pathOf,
    ),
    ...measured(
      `${pathRulesCount} of paths by their end`,
      pathRulesOf(pathRulesCount, (at) => `\\.(count|sum)${at}$`),
      seriesCount / 10,
      pathOf,
    ),
  ];
}

function measured(
  of: string,
  file: unknown,
  seriesCount: number,
  seriesOf: (at: number) => Tag[],
): BenchResult[] {
  const monotonicMillis = (): number => realEnv.clock.monotonicMillis();
  const beginMillis = monotonicMillis();
  const rules = rulesOfFile(file, '');
  const readMillis = monotonicMillis();
  const matcher = new RuleMatcher(rules);
  const builtMillis = monotonicMillis();
  const micros = new Float64Array(seriesCount);
  for (let at = 0; at < seriesCount; at += 1) {
    const tags = seriesOf(at);
    const startMillis = monotonicMillis();
    matcher.match(tags);
    micros[at] = (monotonicMillis() - startMillis) * 1000;
  }
  micros.sort();
  const name = (what: string): string => `cluster/aggregation_rules: ${what}, ${of}`;
  const at = (fraction: number): number => micros[Math.floor((seriesCount - 1) * fraction)]!;
  return [
    { name: name('read and check'), unit: 'ms', value: readMillis - beginMillis },
    { name: name('build the index'), unit: 'ms', value: builtMillis - readMillis },
    { name: name('match a new series, median'), unit: 'us', value: at(0.5) },
    { name: name('match a new series, 99.9 %'), unit: 'us', value: at(0.999) },
    { name: name('match a new series, worst'), unit: 'us', value: at(1) },
  ];
}

/** Another tenth of the rules holds from a time on: who comes first then waits for their index. */
function changed(rulesCount: number, seriesCount: number): BenchResult[] {
  const before = rulesOf(rulesCount);
  const after = rulesOf(rulesCount, rulesCount / 10);
  const rules = new RulesOverTime(ruleSetOf([0n, before], [1_000n, after]));
  for (let at = 0; at < seriesCount; at += 1) rules.at(999n).match(tagsOf(at));
  const micros = new Float64Array(seriesCount);
  for (let at = 0; at < seriesCount; at += 1) {
    const tags = tagsOf(at);
    const startMillis = realEnv.clock.monotonicMillis();
    rules.at(1_000n).match(tags);
    micros[at] = (realEnv.clock.monotonicMillis() - startMillis) * 1000;
  }
  const firstMillis = micros[0]! / 1000;
  const others = micros.subarray(1).sort();
  const name = (what: string): string =>
    `cluster/aggregation_rules: ${what} after a live change, ${rulesCount} rules`;
  return [
    { name: name('match the first series'), unit: 'ms', value: firstMillis },
    { name: name('match others, median'), unit: 'us', value: others[others.length >> 1]! },
    { name: name('match others, worst'), unit: 'us', value: others.at(-1)! },
  ];
}

/** Of which the last one takes what no other does. */
function pathRulesOf(rulesCount: number, patternOf: (at: number) => string): unknown {
  const mappingRules = Array.from({ length: rulesCount }, (_, order) => ({
    path: { pattern: order === rulesCount - 1 ? '.' : patternOf(order), order },
    storagePolicies,
  }));
  return { mappingRules };
}

function pathOf(at: number): Tag[] {
  const nodes = [`app${at % 200}`, `web${at % 997}`, 'cpu', `core${at % 16}`, 'user', 'mean'];
  return nodes.map((value, node) => ({ name: `__g${node}__`, value }));
}

/**
 * Half map, half roll up; a tenth names no value of any tag wholly.
 * @param from rules before it are left out, and as many more are at the end
 */
function rulesOf(rulesCount: number, from: number = 0): object {
  const mappingRules: unknown[] = [];
  const rollupRules: unknown[] = [];
  for (let at = from; at < from + rulesCount; at += 1) {
    const app = `app-${at % apps}`;
    const metric = `metric_${at % metrics}`;
    const filter =
      at % 10 === 0
        ? `__name__:${metric}* app:*-${at % apps} env:!dev`
        : `__name__:${metric} app:${app}`;
    if (at % 2 === 0) mappingRules.push({ filter, storagePolicies });
    else {
      const rollup = {
        metricName: '{{ .MetricName }}_by_app',
        groupBy: ['app'],
        aggregations: ['Sum'],
      };
      rollupRules.push({ filter, transforms: [{ rollup }], storagePolicies });
    }
  }
  return { mappingRules, rollupRules };
}

function tagsOf(at: number): Tag[] {
  const tags = {
    __name__: `metric_${at % metrics}`,
    app: `app-${at % apps}`,
    env: at % 3 === 0 ? 'dev' : 'prod',
    instance: `10.0.${at % 256}.${at % 251}:9090`,
    job: 'kubernetes-pods',
    namespace: `team-${at % 40}`,
    pod: `app-${at % apps}-${at}`,
    zone: `zone-${at % 3}`,
  };
  return Object.entries(tags).map(([name, value]) => ({ name, value }));
}
