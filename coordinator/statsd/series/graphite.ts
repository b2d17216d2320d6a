/** Metrics of statsd as statsd itself writes them to Graphite: paths, each with what came since the last flush. */
import type { StatsdEvent } from '../lines/line.ts';
import { counterKind, gaugeKind, observerKind, type Refusal, setKind } from './counts.ts';
import { type NamedSeries, type SeriesPart, StatsdSeries } from './series.ts';
import { type Bins, timerStatistics } from './timer_statistics.ts';

export interface GraphiteForm {
  /** First nodes of all paths. */
  readonly prefix: string;
  /** Counters are `<prefix>.<name>` and `<prefix>_counts.<name>`. */
  readonly hasLegacyNamespace: boolean;
  readonly percentThresholds: readonly number[];
  readonly histograms: readonly { readonly metric: string; readonly bins: Bins }[];
  /** 0 for never. */
  readonly ttlMillis: number;
}

interface GraphitePart extends SeriesPart {
  /** Nodes. */
  readonly name: string;
  /** With their semicolons. */
  readonly tags: string;
  readonly values: Values | null;
  readonly bins: Bins | null;
  /** When its last window ended; null before the first. */
  flushedMillis: number | null;
}

/** Values of all timers since the last flush. */
const valuesMax = 16 << 20;
const valuesFirst = 16;

class Values {
  values: Float64Array<ArrayBuffer> = new Float64Array(valuesFirst);
  count = 0;
  /** By sampling rates. */
  weight = 0;
}

const codes: Readonly<Record<StatsdEvent['type'], number>> = {
  counter: counterKind,
  gauge: gaugeKind,
  set: setKind,
  timer: observerKind,
  histogram: observerKind,
  distribution: observerKind,
};

export class GraphiteSeries extends StatsdSeries<GraphitePart> {
  override readonly timerUnitMillis = 1;
  protected override readonly takesNegativeCounters = true;
  protected override readonly unobserved = 'too_many_values';
  readonly #form: GraphiteForm;
  readonly #intervalMillis: number;
  #valueCount = 0;

  /** @param intervalMillis of flushes: the first window of a series is that long */
  constructor(form: GraphiteForm, seriesMax: number, intervalMillis: number) {
    super(seriesMax);
    this.#form = form;
    this.#intervalMillis = intervalMillis;
  }

  protected override named({
    type,
    name: given,
    labels,
  }: Pick<StatsdEvent, 'type' | 'name' | 'labels'>): NamedSeries<GraphitePart> | Refusal {
    const name = nodesOf(given);
    const tags = [...labels]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([tag, value]) => `;${tag === 'name' ? 'name_' : tag}=${valueText(value)}`)
      .join('');
    const kind = codes[type];
    const { histograms, ttlMillis } = this.#form;
    return {
      key: `${kind} ${name}${tags}`,
      kind,
      scale: 1,
      refusal: null,
      part: () => ({
        name,
        tags,
        ttlMillis,
        values: kind === observerKind ? new Values() : null,
        bins: histograms.find(({ metric }) => name.includes(metric))?.bins ?? null,
        flushedMillis: null,
      }),
    };
  }

  protected override observe(place: number, value: number, times: number): boolean {
    if (this.#valueCount === valuesMax) return false;
    this.#valueCount++;
    const of = this.table.parts[place]!.values!;
    if (of.count === of.values.length) {
      const room = new Float64Array(2 * of.count);
      room.set(of.values);
      of.values = room;
    }
    of.values[of.count++] = value;
    of.weight += times;
    return true;
  }

  protected override linesOf(place: number, nowMillis: number): string[] {
    const { table } = this;
    const part = table.parts[place]!;
    const seconds =
      (part.flushedMillis === null
        ? this.#intervalMillis
        : Math.max(1, nowMillis - part.flushedMillis)) / 1000;
    part.flushedMillis = nowMillis;
    const { prefix, hasLegacyNamespace } = this.#form;
    const at = `${part.tags} `;
    const end = ` ${nowMillis / 1000}\n`;
    const line = (path: string, value: number): string => `${path}${at}${value}${end}`;
    switch (table.kinds[place]) {
      case counterKind: {
        const count = table.values[place]!;
        table.values[place] = 0;
        return hasLegacyNamespace
          ? [
              line(`${prefix}.${part.name}`, count / seconds),
              line(`${prefix}_counts.${part.name}`, count),
            ]
          : [
              line(`${prefix}.counters.${part.name}.rate`, count / seconds),
              line(`${prefix}.counters.${part.name}.count`, count),
            ];
      }
      case gaugeKind: {
        const value = table.values[place]!;
        return Number.isNaN(value) ? [] : [line(`${prefix}.gauges.${part.name}`, value)];
      }
      case setKind:
        return [line(`${prefix}.sets.${part.name}.count`, table.members[place]!.takeCount())];
      default: {
        const path = `${prefix}.timers.${part.name}`;
        return this.#statisticsOf(part, seconds).map(([name, value]) =>
          line(`${path}.${name}`, value),
        );
      }
    }
  }

  #statisticsOf(
    { values: of, bins }: GraphitePart,
    seconds: number,
  ): (readonly [name: string, value: number])[] {
    const values = of!.values.slice(0, of!.count);
    const statistics = timerStatistics(
      values,
      of!.weight,
      seconds,
      this.#form.percentThresholds,
      bins,
    );
    this.#valueCount -= of!.count;
    if (of!.values.length > valuesFirst) of!.values = new Float64Array(valuesFirst);
    of!.count = 0;
    of!.weight = 0;
    return statistics;
  }

  protected override noteAdded(): void {}

  protected override noteRemoved(place: number): void {
    this.#valueCount -= this.table.parts[place]!.values?.count ?? 0;
  }
}

/** As statsd has it: characters that Graphite has other uses for go, or become others; so do nodes of nothing. */
function nodesOf(name: string): string {
  const nodes = name
    .replace(/\s+/g, '_')
    .replaceAll('/', '-')
    .replace(/[^a-zA-Z0-9_.-]/g, '')
    .split('.')
    .filter((node) => node !== '');
  return nodes.length === 0 ? '_' : nodes.join('.');
}

/** Of a tag: no space ends the path before its end. */
function valueText(value: string): string {
  // oxlint-disable-next-line no-control-regex -- they end lines and words
  return value.replace(/[\u0000-\u0020\u007f;~]/g, '_');
}
