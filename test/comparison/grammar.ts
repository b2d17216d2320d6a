/** Queries at random: every function and operator of the language, over the series of series.ts; a seed decides each. */
import { functions, type ValueType } from '#coordinator/promql/functions/table.ts';
import type { PromqlFeatures } from '#coordinator/promql/parse/features.ts';
import type { SeededRandom } from '../seeded_random.ts';

const selectors = [
  'requests_total',
  'requests_total{code="500"}',
  'requests_total{job=~"a.+",instance!="b"}',
  'memory_bytes',
  'up',
  'up{instance=~"a|b"}',
  'latency_seconds',
  'latency_seconds{job="api"}',
  'size_bytes',
  'target_info',
  'wait_seconds_bucket',
  'wait_seconds_bucket{job="db",instance!~"c"}',
  'queue',
  'mixed',
  'sparse',
  'odd',
  'odd{kind!="tiny"}',
  'ended',
  'nothing',
  '{__name__=~"memory_bytes|up"}',
  // A float and a histogram at one time make no two series without names in Prometheus: not asked for.
  '{__name__=~"latency_seconds|size_bytes",job="api"}',
];

const durations = ['15s', '1m', '90s', '2m', '5m', '10m', '31s', '1h', '100ms'];
const numbers = ['0', '1', '2', '0.5', '-1', '0.99', '1e9', 'Inf', '-Inf', 'NaN', '0.1', '10', '3'];
const labels = ['job', 'instance', 'code', 'le', 'kind', 'nowhere', '__name__', 'version'];
const arithmetic = ['+', '-', '*', '/', '%', '^', 'atan2'];
const comparisons = ['==', '!=', '>', '<', '>=', '<='];
const trims = ['</', '>/'];
const sets = ['and', 'or', 'unless'];
const aggregations = ['sum', 'avg', 'min', 'max', 'count', 'group', 'stddev', 'stdvar'];
const regexps = ['(.*)', 'a(.)', '(?P<x>[a-c])', 'a|b', '.+', '', '(.)(.)?'];
const replacements = ['$1', 'x$1y', '${x}', '', 'new', '$2$1'];

/** Deeper ones say little that others do not. */
const depthMax = 4;

const times = ['', 'timestamp(up)', 'memory_bytes', 'vector(time())', 'vector(time() - 1e8)'];

const functionNames = [...functions.keys()];

export class QueryGrammar {
  readonly #random: SeededRandom;
  readonly #features: PromqlFeatures;

  constructor(random: SeededRandom, features: PromqlFeatures) {
    this.#random = random;
    this.#features = features;
  }

  query(): string {
    return this.#below(12) === 0 ? this.#scalar(0) : this.#vector(0);
  }

  #below(end: number): number {
    return this.#random.below(end);
  }

  #of(type: ValueType, depth: number): string {
    switch (type) {
      case 'scalar':
        return this.#scalar(depth);
      case 'vector':
        return this.#vector(depth);
      case 'matrix':
        return this.#matrix(depth);
      case 'string':
        return this.#string();
    }
  }

  #string(): string {
    const kind = this.#below(3);
    const text = this.#random.pick(kind === 0 ? labels : kind === 1 ? regexps : replacements);
    return JSON.stringify(text);
  }

  #scalar(depth: number): string {
    const choice = this.#below(depth >= depthMax ? 3 : 9);
    if (choice < 3) return this.#random.pick(numbers);
    if (choice === 3) return `scalar(${this.#vector(depth + 1)})`;
    if (choice === 4) return this.#random.pick(['time()', 'pi()']);
    if (choice === 5) return `(${this.#scalar(depth + 1)})`;
    if (choice === 6) return `-${this.#scalar(depth + 1)}`;
    const isComparison = choice === 8;
    const operator = this.#random.pick(isComparison ? comparisons : arithmetic);
    const bool = isComparison ? ' bool' : '';
    return `${this.#scalar(depth + 1)} ${operator}${bool} ${this.#scalar(depth + 1)}`;
  }

  #vector(depth: number): string {
    if (depth >= depthMax) return this.#selector();
    switch (this.#below(12)) {
      case 0:
      case 1:
        return this.#selector();
      case 2:
      case 3:
      case 4:
      case 5:
        return this.#call(depth);
      case 6:
      case 7:
        return this.#aggregation(depth);
      case 8:
      case 9:
        return this.#binary(depth);
      case 10:
        return this.#histogramCall(depth);
      default:
        return this.#below(2) === 0
          ? `(${this.#vector(depth + 1)})`
          : `-${this.#vector(depth + 1)}`;
    }
  }

  #selector(): string {
    return `${this.#random.pick(selectors)}${this.#modifiers()}`;
  }

  #modifiers(): string {
    switch (this.#below(14)) {
      case 0:
        return ` offset ${this.#random.pick(durations)}`;
      case 1:
        return ` offset -${this.#random.pick(durations)}`;
      case 2:
        return ` @ ${this.#random.pick(['start()', 'end()'])}`;
      case 3:
        return ` @ end() offset ${this.#random.pick(durations)}`;
      default:
        return '';
    }
  }

  #matrix(depth: number): string {
    const range = this.#random.pick(durations);
    if (depth + 1 < depthMax && this.#below(5) === 0) {
      const step = this.#below(2) === 0 ? '' : this.#random.pick(['10s', '1m', '37s']);
      const inner = this.#vector(depth + 2);
      return `(${inner})[${this.#random.pick(['2m', '5m', '10m'])}:${step}]${this.#modifiers()}`;
    }
    const extension =
      this.#features.extendedRangeSelectors && this.#below(8) === 0
        ? ` ${this.#random.pick(['anchored', 'smoothed'])}`
        : '';
    return `${this.#random.pick(selectors)}[${range}]${extension}${this.#modifiers()}`;
  }

  #call(depth: number): string {
    const name = this.#random.pick(functionNames);
    const row = functions.get(name)!;
    if (row.experimental && !this.#features.experimentalFunctions) return this.#call(depth);
    // Of times that have no say in the series.
    if (name === 'info' && row.args.length > 1) return `info(${this.#vector(depth + 1)})`;
    if (name === 'label_replace') {
      const args = [labels, replacements, labels, regexps].map((texts) =>
        JSON.stringify(this.#random.pick(texts)),
      );
      return `label_replace(${[this.#vector(depth + 1), ...args].join(', ')})`;
    }
    if (name === 'label_join' || name.startsWith('sort_by_label')) {
      const texts = Array.from({ length: 1 + this.#below(3) }, () =>
        JSON.stringify(this.#random.pick(labels)),
      );
      const separator = name === 'label_join' ? [JSON.stringify(this.#random.pick(['-', '']))] : [];
      const args = [this.#vector(depth + 1), texts[0]!, ...separator, ...texts.slice(1)];
      return `${name}(${args.join(', ')})`;
    }
    // What the calendar says of no time differs between processors.
    if (row.dependsOnTime && row.ofValue !== null) {
      return `${name}(${this.#random.pick(times)})`;
    }
    const least = row.args.length - Math.abs(row.optional);
    const count = least + this.#below(row.args.length - least + 1);
    const args = row.args.slice(0, count).map((type) => this.#of(type, depth + 1));
    const text = `${name}(${args.join(', ')})`;
    return row.result === 'vector' ? text : `vector(${text})`;
  }

  /** Of histograms: at random they would be asked of others for the most part. */
  #histogramCall(depth: number): string {
    const histograms = this.#random.pick([
      'latency_seconds',
      'size_bytes',
      'queue',
      'mixed',
      'sum(latency_seconds)',
      'sum by (job) (rate(latency_seconds[5m]))',
      'rate(size_bytes[5m])',
      'avg(size_bytes)',
      'wait_seconds_bucket',
      'rate(wait_seconds_bucket[5m])',
      'sum by (le) (rate(wait_seconds_bucket[2m]))',
      'sum by (job) (latency_seconds) / 3',
      'avg_over_time(queue[5m])',
      'latency_seconds - latency_seconds offset 5m',
    ]);
    switch (this.#below(7)) {
      case 0:
        return `histogram_quantile(${this.#scalar(depth + 2)}, ${histograms})`;
      case 1:
        return `histogram_fraction(${this.#scalar(depth + 2)}, ${this.#scalar(depth + 2)}, ${histograms})`;
      case 2:
        return `histogram_${this.#random.pick(['avg', 'count', 'sum', 'stddev', 'stdvar'])}(${histograms})`;
      case 3:
        return `(${histograms}) ${this.#random.pick([...trims, '*', '/'])} ${this.#random.pick(numbers)}`;
      case 4:
        return `(${histograms}) ${this.#random.pick([...arithmetic, ...comparisons])} (${histograms})`;
      case 5:
        return `${this.#random.pick([...aggregations, 'count'])}(${histograms})`;
      default:
        return histograms;
    }
  }

  #aggregation(depth: number): string {
    const grouping = this.#grouping();
    const inner = this.#vector(depth + 1);
    switch (this.#below(8)) {
      case 0:
        return `${this.#random.pick(['topk', 'bottomk'])}${grouping}(${this.#parameter()}, ${inner})`;
      case 1:
        return `quantile${grouping}(${this.#parameter()}, ${inner})`;
      case 2:
        return `count_values${grouping}("${this.#random.pick(labels)}", ${inner})`;
      case 3: {
        if (!this.#features.experimentalFunctions) break;
        const name = this.#random.pick(['limitk', 'limit_ratio']);
        return `${name}${grouping}(${this.#parameter()}, ${inner})`;
      }
    }
    return `${this.#random.pick(aggregations)}${grouping}(${inner})`;
  }

  /** One for all steps: Prometheus takes an aggregation for the same at all steps when what it aggregates is. */
  #parameter(): string {
    const number = this.#random.pick(numbers);
    return this.#below(3) === 0 ? `${number} * ${this.#random.pick(numbers)}` : number;
  }

  #grouping(): string {
    if (this.#below(3) === 0) return '';
    return ` ${this.#random.pick(['by', 'without'])} (${this.#labelList()}) `;
  }

  #labelList(): string {
    const count = this.#below(3);
    return Array.from({ length: count }, () => this.#random.pick(labels)).join(', ');
  }

  #binary(depth: number): string {
    const left = this.#operand(depth);
    const right = this.#operand(depth);
    const kind = this.#below(10);
    if (kind < 2) {
      const on = this.#below(2) === 0 ? '' : this.#on();
      return `${this.#vector(depth + 1)} ${this.#random.pick(sets)}${on} ${this.#vector(depth + 1)}`;
    }
    const operator = this.#random.pick(kind < 6 ? arithmetic : kind < 9 ? comparisons : trims);
    const bool = comparisons.includes(operator) && this.#below(3) === 0 ? ' bool' : '';
    let matching = '';
    if (left.isVector && right.isVector && this.#below(2) === 0) {
      matching = this.#on();
      if (this.#below(2) === 0) {
        matching += ` ${this.#random.pick(['group_left', 'group_right'])}(${this.#labelList()})`;
      }
      if (this.#features.fillModifiers && this.#below(4) === 0) {
        matching += ` ${this.#random.pick(['fill', 'fill_left', 'fill_right'])}(${this.#random.pick(['0', '1', '-1'])})`;
      }
    }
    return `${left.text} ${operator}${bool}${matching} ${right.text}`;
  }

  #operand(depth: number): { text: string; isVector: boolean } {
    const isVector = this.#below(3) > 0;
    return { text: isVector ? this.#vector(depth + 1) : this.#scalar(depth + 1), isVector };
  }

  #on(): string {
    return ` ${this.#random.pick(['on', 'ignoring'])}(${this.#labelList()})`;
  }
}
