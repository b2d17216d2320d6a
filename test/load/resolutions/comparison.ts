/** Answers of the node held against the plain evaluator, and what is counted of that. */
import { call } from '../../integration/process.ts';
import {
  type EvaluatedSeries,
  type Floors,
  inexactFunctions,
  isWidened,
  resolutionsMillis,
  sourceAt,
  type SourceName,
  sourceNames,
} from './evaluator.ts';
import { type Expression, expectedAt, isExact, keyOf, type Values } from './queries.ts';

/** Of sums of decimals, and of what is divided or scaled. */
const relativeTolerance = 1e-9;
/** Of what is 0 but for rounding. */
const absoluteTolerance = 1e-12;
const differencesKept = 10;

/** Times of steps; one alone is an instant query. */
export interface Steps {
  readonly startMillis: number;
  readonly stepMillis: number;
  readonly count: number;
}

export interface Ask {
  readonly expression: Expression;
  readonly steps: Steps;
  /** Chooses the source by hand. */
  readonly forced: { readonly source: SourceName; readonly headers: Record<string, string> } | null;
}

export interface Difference {
  readonly query: string;
  readonly headers?: Record<string, string>;
  readonly series: string;
  readonly at: string;
  readonly source: string;
  readonly expected: number | string | null;
  readonly found: number | string | null;
  /** When it was asked: what is read from where is a matter of that. */
  readonly askedAt: string;
}

interface Counts {
  compared: number;
  different: number;
}

/** As a coordinator answers range and instant queries. */
interface AnsweredSeries {
  readonly metric: Record<string, string>;
  readonly value?: [number, string];
  readonly values?: [number, string][];
}

export class Comparison {
  readonly #url: string;
  readonly #series: ReadonlyMap<string, readonly EvaluatedSeries[]>;
  readonly #floorsAt: (nowMillis: number) => Floors;
  readonly #report: (line: string) => void;
  /** By function and source. */
  readonly counts: Map<string, Record<SourceName, Counts>> = new Map();
  /** Of names, by the stretch that was asked. */
  readonly names: Map<string, Counts> = new Map();
  readonly differences: Difference[] = [];
  differenceCount = 0;
  requests = 0;
  /** Steps at which the source changed while they were asked, so that either of two was right. */
  eitherCount = 0;
  annotations = 0;

  /** @param floorsAt since when sources have everything, by the time of the query */
  constructor(
    url: string,
    series: readonly EvaluatedSeries[],
    floorsAt: (nowMillis: number) => Floors,
    report: (line: string) => void,
  ) {
    this.#url = url;
    this.#report = report;
    this.#series = Map.groupBy(series, ({ series }) => series.labels.__name__);
    this.#floorsAt = floorsAt;
  }

  /** Asks and compares every value of every step. */
  async ask(ask: Ask): Promise<void> {
    const { expression, steps, forced } = ask;
    const seconds = (millis: number): string => String(millis / 1000);
    const isInstant = steps.count === 1;
    const last = steps.startMillis + (steps.count - 1) * steps.stepMillis;
    const parameters = new URLSearchParams({
      query: expression.text,
      ...(isInstant
        ? { time: seconds(steps.startMillis) }
        : {
            start: seconds(steps.startMillis),
            end: seconds(last),
            step: seconds(steps.stepMillis),
          }),
    });
    const path = isInstant ? 'query' : 'query_range';
    const beforeMillis = Date.now();
    const response = await fetch(`${this.#url}/api/v1/${path}?${parameters}`, {
      headers: forced?.headers ?? {},
    });
    const text = await response.text();
    const afterMillis = Date.now();
    this.requests += 1;
    if (response.status !== 200) {
      this.#differ(ask, {
        series: '',
        at: '',
        source: '',
        expected: 200,
        found: text.slice(0, 500),
      });
      return;
    }
    const {
      data,
      warnings = [],
      infos = [],
    } = JSON.parse(text) as {
      data: { result: AnsweredSeries[] };
      warnings?: string[];
      infos?: string[];
    };
    const found = valuesByTime(expression, data.result);
    const floors = [beforeMillis, afterMillis].map((now) => this.#floorsAt(now));
    const used = { surely: new Set<SourceName>(), perhaps: new Set<SourceName>() };
    const told = new Set<SourceName>();
    for (let step = 0; step < steps.count; step++) {
      const at = steps.startMillis + step * steps.stepMillis;
      const sources = new Set(
        forced === null ? floors.map((each) => sourceAt(expression, at, each)) : [forced.source],
      );
      for (const source of sources) used.perhaps.add(source);
      if (sources.size === 1) for (const source of sources) used.surely.add(source);
      const values = found.get(at) ?? new Map<string, number>();
      if (values.size > 0) for (const source of sources) told.add(source);
      this.#compareStep(ask, at, [...sources], values);
      found.delete(at);
    }
    for (const at of found.keys()) {
      this.#differ(ask, {
        series: '',
        at: timeText(at),
        source: '',
        expected: 'no step',
        found: 1,
      });
    }
    const names = (response.headers.get('tsdb-namespaces') ?? '').split(',');
    this.#compareNotes(ask, used, told, { names, warnings, infos });
  }

  #compareStep(ask: Ask, at: number, sources: readonly SourceName[], found: Values): void {
    const { expression } = ask;
    const series = this.#series.get(expression.metric) ?? [];
    const isWhole = series.every(({ series: { isWhole } }) => isWhole);
    const options = sources.map((source) => {
      const values = expectedAt(expression, series, at, source);
      const wrong = differing(values, found, isExact(expression, isWhole, source));
      return { source, values, wrong };
    });
    if (options.length > 1) this.eitherCount += 1;
    const right = options.find(({ wrong }) => wrong.length === 0);
    const { source, values, wrong } = right ?? options[0]!;
    const counts = this.#countsOf(expression, source);
    counts.compared += new Set([...values.keys(), ...found.keys()]).size;
    counts.different += wrong.length;
    for (const key of wrong) {
      this.#differ(ask, {
        series: key,
        at: timeText(at),
        source,
        expected: values.get(key) ?? null,
        found: found.get(key) ?? null,
      });
    }
  }

  /** What an answer says of itself: the namespaces that were read, and how windows stand for samples. */
  #compareNotes(
    ask: Ask,
    used: { readonly surely: ReadonlySet<SourceName>; readonly perhaps: ReadonlySet<SourceName> },
    told: ReadonlySet<SourceName>,
    notes: {
      readonly names: readonly string[];
      readonly warnings: readonly string[];
      readonly infos: readonly string[];
    },
  ): void {
    const { expression } = ask;
    for (const source of sourceNames.filter((name) => name !== 'samples')) {
      const resolution = `${resolutionsMillis[source] / 1000} s`;
      const tells = (texts: readonly string[], phrase: string): boolean =>
        texts.some((text) => text.includes(phrase) && text.includes(`of ${resolution}`));
      const widened = tells(notes.infos, 'is shorter than four windows');
      const inexact = tells(notes.warnings, 'is of the last samples of windows');
      this.#compareNote(ask, source, used, isWidened(expression, source), widened, 'widened');
      const isInexact = inexactFunctions.has(expression.name);
      this.#compareNote(ask, source, used, isInexact, inexact, 'inexact');
      const isNamed = notes.names.includes(namespaceOf(source));
      if (told.has(source) || !used.perhaps.has(source)) {
        this.#compareNote(ask, source, used, true, isNamed, 'TSDB-Namespaces');
      }
    }
  }

  #compareNote(
    ask: Ask,
    source: SourceName,
    used: { readonly surely: ReadonlySet<SourceName>; readonly perhaps: ReadonlySet<SourceName> },
    isTold: boolean,
    found: boolean,
    what: string,
  ): void {
    if (used.perhaps.has(source) && !used.surely.has(source)) return;
    this.annotations += 1;
    const expected = isTold && used.surely.has(source);
    if (expected === found) return;
    this.#differ(ask, {
      series: what,
      at: `from ${timeText(ask.steps.startMillis)}`,
      source,
      expected: String(expected),
      found: String(found),
    });
  }

  #countsOf({ name, aggregation }: Expression, source: SourceName): Counts {
    const row = aggregation === null ? name : `${aggregation.operator}(…)`;
    let counts = this.counts.get(row);
    if (counts === undefined) {
      const none = (): Counts => ({ compared: 0, different: 0 });
      counts = { samples: none(), '5m': none(), '1h': none() };
      this.counts.set(row, counts);
    }
    return counts[source];
  }

  #differ(
    { expression, steps, forced }: Ask,
    difference: Omit<Difference, 'query' | 'askedAt' | 'headers'>,
  ): void {
    const step = steps.count === 1 ? '' : ` step ${steps.stepMillis / 1000} s`;
    this.#note({
      query: `${expression.text}${step}`,
      ...(forced === null ? {} : { headers: forced.headers }),
      ...difference,
    });
  }

  #note(difference: Omit<Difference, 'askedAt'>): void {
    this.differenceCount += 1;
    if (this.differences.length >= differencesKept) return;
    const noted = { ...difference, askedAt: timeText(Date.now()) };
    this.differences.push(noted);
    this.#report(JSON.stringify(noted));
  }

  /** Names, series and values of labels in a range. @param expected which series may be told, and which have to be */
  async askNames(
    [fromMillis, toMillis]: readonly [number, number],
    expected: { readonly surely: ReadonlySet<string>; readonly perhaps: ReadonlySet<string> },
    row: string,
  ): Promise<void> {
    const range = `start=${fromMillis / 1000}&end=${toMillis / 1000}`;
    const match = encodeURIComponent('{instance!=""}');
    const nameOf = (instance: string): string => instance.replace(/-\d+$/, '');
    for (const [path, of] of [
      [`series?match[]=${match}&${range}`, (instance: string) => instance],
      [`label/instance/values?${range}`, (instance: string) => instance],
      [`label/__name__/values?${range}`, nameOf],
      [`labels?${range}`, null],
    ] as const) {
      const { status, text, json } = await call('GET', `${this.#url}/api/v1/${path}`);
      this.requests += 1;
      const found = new Set<string>(
        status !== 200
          ? [text.slice(0, 500)]
          : json.data.map((each: string | Record<string, string>) =>
              typeof each === 'string' ? each : each['instance']!,
            ),
      );
      const [surely, perhaps] =
        of === null
          ? [new Set(['__name__', 'instance', 'zone']), new Set(['__name__', 'instance', 'zone'])]
          : [new Set([...expected.surely].map(of)), new Set([...expected.perhaps].map(of))];
      const wrong = [
        ...[...surely].filter((name) => !found.has(name)),
        ...[...found].filter((name) => !perhaps.has(name) && !surely.has(name)),
      ];
      const counts = this.#names(row);
      counts.compared += new Set([...found, ...surely]).size;
      counts.different += wrong.length;
      for (const name of wrong) {
        this.#note({
          query: path,
          series: name,
          at: `${timeText(fromMillis)} to ${timeText(toMillis)}`,
          source: row,
          expected: surely.has(name) ? 'told' : 'not told',
          found: found.has(name) ? 'told' : 'not told',
        });
      }
    }
  }

  #names(row: string): Counts {
    let counts = this.names.get(row);
    if (counts === undefined) {
      counts = { compared: 0, different: 0 };
      this.names.set(row, counts);
    }
    return counts;
  }
}

/** Of the namespaces that the run makes. */
export function namespaceOf(source: SourceName): string {
  return source === 'samples' ? 'default' : `windows_${source}`;
}

const timeText = (millis: number): string => new Date(millis).toISOString();

function valuesByTime(
  expression: Expression,
  result: readonly AnsweredSeries[],
): Map<number, Map<string, number>> {
  const byTime = new Map<number, Map<string, number>>();
  for (const { metric, value, values } of result) {
    const key = keyOf(expression, metric);
    for (const [seconds, text] of values ?? (value === undefined ? [] : [value])) {
      const at = Math.round(seconds * 1000);
      const number = text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text);
      const step = byTime.get(at) ?? new Map<string, number>();
      byTime.set(at, step);
      step.set(step.has(key) ? `${key} twice` : key, number);
    }
  }
  return byTime;
}

/** Keys whose values are not those that were expected. */
function differing(expected: Values, found: Values, isExact: boolean): string[] {
  const keys = new Set([...expected.keys(), ...found.keys()]);
  return [...keys].filter((key) => {
    const [a, b] = [expected.get(key), found.get(key)];
    if (a === undefined || b === undefined) return true;
    if (a === b) return false;
    if (isExact) return true;
    const scale = Math.max(Math.abs(a), Math.abs(b));
    return !(Math.abs(a - b) <= relativeTolerance * scale + absoluteTolerance);
  });
}
