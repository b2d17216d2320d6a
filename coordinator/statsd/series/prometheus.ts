/**
 * Metrics of statsd as Prometheus has them: counters since the beginning, summaries or histograms of what was observed, gauges as
 * they are, sets as gauges of how many members came since the last flush. A series begins with a 0 at the time of its first event,
 * so that `rate` and `increase` know what came with it.
 */
import type { StatsdEvent } from '../lines/line.ts';
import { escapedName } from '../lines/names.ts';
import { Mapper } from '../mapping/mapper.ts';
import { kindOf, type Mapping, type MetricSettings } from '../mapping/mapping.ts';
import { counterKind, gaugeKind, observerKind, type Refusal, setKind } from './counts.ts';
import { Histogram, type Observer, Summary } from './observers.ts';
import { type NamedSeries, type SeriesPart, StatsdSeries } from './series.ts';
import { numberText, SeriesName } from './text.ts';

interface PrometheusPart extends SeriesPart {
  /** Name and labels. */
  readonly text: string;
  readonly observer: Observer | null;
  /** Metrics that it makes, and of what type. */
  readonly metrics: readonly string[];
  readonly type: MetricType;
}

type MetricType = 'counter' | 'gauge' | 'set' | 'summary' | 'histogram';

/** Of one name, how many series have it. */
interface NameOfType {
  readonly type: MetricType;
  count: number;
}

const suffixes: Readonly<Record<MetricType, readonly string[]>> = {
  counter: [''],
  gauge: [''],
  set: [''],
  summary: ['', '_sum', '_count'],
  histogram: ['', '_sum', '_count', '_bucket'],
};

/** How long before a series' first rows its 0 is at most: older ones may be refused as too far in the past. */
const zeroAgeMillisMax = 60_000;

const ownLabels: Partial<Record<MetricType, string>> = { summary: 'quantile', histogram: 'le' };

export class PrometheusSeries extends StatsdSeries<PrometheusPart> {
  override readonly timerUnitMillis = 1000;
  protected override readonly takesNegativeCounters = false;
  protected override readonly unobserved = 'not_finite';
  readonly #mapper: Mapper;
  readonly #defaults: MetricSettings;
  readonly #labels: ReadonlyMap<string, string>;
  readonly #names = new Map<string, NameOfType>();

  /** @param labels of all metrics that have none of that name */
  constructor(mapping: Mapping, labels: Readonly<Record<string, string>>, seriesMax: number) {
    super(seriesMax);
    this.#labels = new Map(Object.entries(labels));
    this.#mapper = new Mapper(mapping);
    this.#defaults = mapping.defaults;
  }

  protected override named({
    type,
    name,
    labels,
  }: Pick<StatsdEvent, 'type' | 'name' | 'labels'>): NamedSeries<PrometheusPart> | Refusal {
    const mapped = this.#mapper.map(name, kindOf(type));
    if (mapped?.rule.isDrop === true) return 'dropped_by_mapping';
    const settings = mapped?.rule.settings ?? this.#defaults;
    const metric = escapedName(mapped?.name ?? name);
    const all = new Map([...this.#labels, ...labels]);
    for (const [label, value] of mapped?.labels ?? []) {
      if (!(settings.honorsLabels && all.has(label))) all.set(label, value);
    }
    const metricType = typeOf(type, settings);
    if (all.has(ownLabels[metricType] ?? '')) return 'reserved_label';
    const metrics = suffixes[metricType].map((suffix) => `${metric}${suffix}`);
    const isOfOther = metrics.some((each) => {
      const known = this.#names.get(each);
      return known !== undefined && known.type !== metricType;
    });
    const given = [...all].filter(([, value]) => value !== '');
    const seriesName = new SeriesName(metric, given);
    const { text } = seriesName;
    return {
      key: text,
      kind: kindCodeOf(metricType),
      scale: settings.scale,
      refusal: isOfOther ? 'conflicting_type' : null,
      part: (nowMillis) => ({
        text,
        metrics,
        type: metricType,
        ttlMillis: settings.ttlMillis,
        observer: observerOf(metricType, seriesName, settings, nowMillis),
      }),
    };
  }

  protected override observe(place: number, value: number, times: number): boolean {
    // A rate of 0.3 stands for three, as statsd_exporter has it.
    return this.table.parts[place]!.observer!.observe(value, Math.floor(times), this.nowMillis);
  }

  protected override linesOf(place: number, nowMillis: number): string[] {
    const { table } = this;
    const { text, observer } = table.parts[place]!;
    const kind = table.kinds[place]!;
    const isCumulative = kind === counterKind || kind === observerKind;
    const lines: string[] = [];
    if (isCumulative && table.isWritten[place] === 0) {
      // Before what is written now, also where both are of one millisecond.
      const createdMillis = Math.max(table.createdMillis[place]!, nowMillis - zeroAgeMillisMax);
      const beganMillis = Math.min(createdMillis, nowMillis - 1);
      const empty = observer === null ? [`${text} 0`] : observer.emptyLines();
      for (const line of empty) lines.push(`${line} ${beganMillis}\n`);
    }
    table.isWritten[place] = 1;
    if (observer === null) {
      const value = kind === setKind ? table.members[place]!.takeCount() : table.values[place]!;
      lines.push(`${text} ${numberText(value)} ${nowMillis}\n`);
    } else {
      for (const line of observer.lines(nowMillis)) lines.push(`${line} ${nowMillis}\n`);
    }
    return lines;
  }

  protected override noteAdded(place: number): void {
    const { metrics, type } = this.table.parts[place]!;
    for (const metric of metrics) {
      const known = this.#names.get(metric);
      if (known === undefined) this.#names.set(metric, { type, count: 1 });
      else known.count++;
    }
  }

  protected override noteRemoved(place: number): void {
    for (const metric of this.table.parts[place]!.metrics) {
      const known = this.#names.get(metric)!;
      known.count--;
      if (known.count === 0) this.#names.delete(metric);
    }
  }
}

function typeOf(type: StatsdEvent['type'], { observer }: MetricSettings): MetricType {
  return type === 'counter' || type === 'gauge' || type === 'set' ? type : observer.type;
}

function kindCodeOf(type: MetricType): number {
  if (type === 'counter') return counterKind;
  if (type === 'gauge') return gaugeKind;
  return type === 'set' ? setKind : observerKind;
}

function observerOf(
  type: MetricType,
  name: SeriesName,
  { observer }: MetricSettings,
  nowMillis: number,
): Observer | null {
  if (type !== 'summary' && type !== 'histogram') return null;
  return observer.type === 'summary'
    ? new Summary(name, observer.quantiles, observer.maxAgeMillis, nowMillis)
    : new Histogram(name, observer.bounds);
}
