/**
 * The plain twin of the reader: what a body of JSON says, read field by field, with the labels of each point made anew. It tells
 * rows as texts.
 */
import { doubleOf, bitsOfDouble } from '../typed/typed_value.ts';
import { Names } from './labels/names.ts';
import { plainDecimal } from './labels/plain_decimal.ts';
import type { OtlpSetting } from './points/types.ts';

/** A member of a body as JSON, of which the fuzz makes only what OTLP has. */
// oxlint-disable-next-line typescript/no-explicit-any
type Json = any;

export interface TwinOutcome {
  /** Of samples, then of histograms, each in the order of the body. */
  readonly samples: string[];
  readonly histograms: string[];
  readonly pointCount: number;
  readonly refusedCount: number;
}

const staleBits = 0x7ff0_0000_0000_0002n;
const countMax = 2 ** 52;

class None extends Error {}

type Labels = Map<string, string>;

export function outcomeOfTwin(body: Json, setting: OtlpSetting): TwinOutcome {
  const twin = new OtlpTwin(setting);
  for (const resource of body.resourceMetrics ?? []) twin.resource(resource);
  return twin.outcome;
}

class OtlpTwin {
  readonly outcome = {
    samples: [] as string[],
    histograms: [] as string[],
    pointCount: 0,
    refusedCount: 0,
  };
  readonly #setting: OtlpSetting;
  readonly #names: Names;

  constructor(setting: OtlpSetting) {
    this.#setting = setting;
    this.#names = new Names(setting.translationStrategy);
  }

  resource({ resource = {}, scopeMetrics = [] }: Json): void {
    const times: number[] = [];
    for (const { scope = {}, schemaUrl = '', metrics = [] } of scopeMetrics) {
      for (const metric of metrics) this.#metric(metric, resource, { ...scope, schemaUrl }, times);
    }
    const labels = this.#ofResource(resource);
    if (labels === null || labels.targetInfo === null || times.length === 0) return;
    const latest = Math.max(...times);
    const step = Math.floor(this.#setting.lookbackMillis / 2);
    const first = Math.max(Math.min(...times), latest - 255 * step);
    for (let millis = first; millis < latest; millis += step) {
      this.#add(labels.targetInfo, [], millis, bitsOfDouble(1), 0);
    }
    this.#add(labels.targetInfo, [], latest, bitsOfDouble(1), 0);
  }

  #ofResource({
    attributes = [],
  }: Json): { promoted: Labels; identity: Labels; targetInfo: Labels | null } | null {
    const { ignoredAttributes, keepsIdentifying, promotedAttributes, promotesAll } = this.#setting;
    const own = ['service.namespace', 'service.name', 'service.instance.id'];
    const valueOf = (wanted: string): string | undefined => {
      const found = attributes.filter(({ key = '' }: Json) => key === wanted).at(-1);
      return found === undefined ? undefined : textOf(found.value);
    };
    try {
      const promoted: Labels = new Map();
      for (const { key = '', value } of attributes) {
        const isPromoted = promotesAll ? !ignoredAttributes.has(key) : promotedAttributes.has(key);
        if (isPromoted) promoted.set(this.#label(key), textOf(value));
      }
      const [namespace, name, instance] = own.map(valueOf);
      const job = name === undefined || namespace === undefined ? name : `${namespace}/${name}`;
      const identity: Labels = new Map();
      if (job) identity.set('job', job);
      if (instance) identity.set('instance', instance);
      const others = attributes.filter(({ key = '' }: Json) => !own.includes(key));
      if (others.length === 0 || identity.size === 0)
        return { promoted, identity, targetInfo: null };
      const targetInfo = this.#joined(keepsIdentifying ? attributes : others);
      for (const [label, value] of identity) targetInfo.set(label, value);
      targetInfo.set('__name__', 'target_info');
      return { promoted, identity, targetInfo };
    } catch (error) {
      if (error instanceof None) return null;
      throw error;
    }
  }

  #metric(metric: Json, resource: Json, scope: Json, times: number[]): void {
    const { name = '', unit = '' } = metric;
    const kind = ['gauge', 'sum', 'histogram', 'exponentialHistogram', 'summary'].find(
      (each) => each in metric,
    );
    if (kind === undefined) return;
    const { aggregationTemporality = 0, dataPoints = [], isMonotonic = false } = metric[kind];
    const isCounter = kind === 'sum' && isMonotonic;
    const own = this.#names.metric(
      name,
      unit,
      isCounter ? 'counter' : kind === 'gauge' ? 'gauge' : 'other',
    );
    const hasTemporality = kind !== 'gauge' && kind !== 'summary';
    const isDelta = hasTemporality && aggregationTemporality === 1;
    const isTaken =
      !hasTemporality || aggregationTemporality === 2 || (isDelta && this.#setting.storesDeltas);
    for (const point of dataPoints) {
      this.outcome.pointCount += 1;
      try {
        const labels = this.#ofResource(resource);
        if (labels === null || own === '' || !isTaken) throw new None();
        const scopeLabels = this.#ofScope(scope);
        const millis = millisOf(point.timeUnixNano);
        if (millis === 0) throw new None();
        times.push(millis);
        const all = this.#joined(point.attributes ?? []);
        for (const [label, value] of labels.promoted) if (!all.get(label)) all.set(label, value);
        for (const [label, value] of [...labels.identity, ...scopeLabels]) all.set(label, value);
        this.#point(kind, own, point, all, millis, isDelta);
      } catch (error) {
        if (!(error instanceof None)) throw error;
        this.outcome.refusedCount += 1;
      }
    }
  }

  #ofScope({ name = '', version = '', schemaUrl = '', attributes = [] }: Json): Labels {
    const labels: Labels = new Map();
    if (!this.#setting.promotesScope || name === '') return labels;
    for (const { key = '', value } of attributes)
      labels.set(this.#label(`otel_scope_${key}`), textOf(value));
    labels.set('otel_scope_name', name);
    labels.set('otel_scope_version', version);
    labels.set('otel_scope_schema_url', schemaUrl);
    return labels;
  }

  #point(
    kind: string,
    name: string,
    point: Json,
    labels: Labels,
    millis: number,
    isDelta: boolean,
  ): void {
    const start = millisOf(point.startTimeUnixNano);
    const startMillis = kind === 'gauge' || start > 9_223_372_036_854 ? 0 : start;
    const isStale = Number(point.flags ?? 0) % 2 === 1;
    const rows: [suffix: string, label: string, value: string, bits: bigint][] = [];
    const put = (suffix: string, value: number, label = '', text = ''): void =>
      void rows.push([suffix, label, text, isStale ? staleBits : bitsOfDouble(value)]);
    switch (kind) {
      case 'gauge':
      case 'sum':
        if (!isStale && point.asInt === undefined && point.asDouble === undefined) throw new None();
        put('', point.asInt === undefined ? numberOf(point.asDouble) : Number(point.asInt));
        break;
      case 'summary': {
        const quantiles = point.quantileValues ?? [];
        put('_count', Number(point.count ?? 0));
        put('_sum', numberOf(point.sum));
        for (const { quantile = 0, value } of quantiles)
          put('', numberOf(value), 'quantile', plainDecimal(quantile));
        if (new Set(rows.map(([, , text]) => text)).size < quantiles.length + 1) throw new None();
        break;
      }
      case 'exponentialHistogram':
        return this.#histogram(
          name,
          labels,
          millis,
          startMillis,
          exponentialText(point, isStale, isDelta),
        );
      default: {
        const bounds: number[] = point.explicitBounds ?? [];
        const counts: number[] = (point.bucketCounts ?? []).map(Number);
        const isBare = counts.length === 0 && (isStale || bounds.length === 0);
        if (counts.length !== bounds.length + 1 && !isBare) throw new None();
        if (this.#setting.convertsHistograms) {
          return this.#histogram(
            name,
            labels,
            millis,
            startMillis,
            customText(point, bounds, counts, isStale, isDelta),
          );
        }
        if (bounds.some((bound, i) => !(bound > (bounds[i - 1] ?? -Infinity) && bound < Infinity)))
          throw new None();
        put('_count', Number(point.count ?? 0));
        if (point.sum !== undefined) put('_sum', point.sum);
        let cumulative = 0;
        for (const [i, bound] of bounds.entries()) {
          put('_bucket', (cumulative += counts[i] ?? 0), 'le', plainDecimal(bound));
        }
        put('_bucket', Number(point.count ?? 0), 'le', '+Inf');
      }
    }
    for (const [suffix, label, text, bits] of rows) {
      const own: [string, string][] = [['__name__', name + suffix]];
      if (label !== '') own.push([label, text]);
      this.#add(labels, own, millis, bits, startMillis);
    }
  }

  #add(
    labels: Labels,
    own: [string, string][],
    millis: number,
    bits: bigint,
    startMillis: number,
  ): void {
    this.outcome.samples.push(
      `${tagsText(new Map([...labels, ...own]))} ${millis} ${bits} ${startMillis}`,
    );
  }

  #histogram(
    name: string,
    labels: Labels,
    millis: number,
    startMillis: number,
    text: string,
  ): void {
    const tags = tagsText(new Map([...labels, ['__name__', name]]));
    this.outcome.histograms.push(`${tags} ${millis} ${startMillis} ${text}`);
  }

  #joined(attributes: Json[]): Labels {
    const sorted = attributes
      .map(({ key = '', value }) => ({ key: Buffer.from(key), value: textOf(value) }))
      .sort((a, b) => Buffer.compare(a.key, b.key));
    const labels: Labels = new Map();
    for (const { key, value } of sorted) {
      if (key.toString() === '__name__') continue;
      const label = this.#label(key.toString());
      const before = labels.get(label);
      labels.set(label, before ? `${before};${value}` : value);
    }
    return labels;
  }

  #label(key: string): string {
    const label = this.#names.label(key);
    if (label === '') throw new None();
    return label;
  }
}

function tagsText(labels: Labels): string {
  return [...labels]
    .filter(([, value]) => value !== '')
    .map(([name, value]) => ({
      name: Buffer.from(name),
      text: `${JSON.stringify(name)}=${JSON.stringify(value)}`,
    }))
    .sort((a, b) => Buffer.compare(a.name, b.name))
    .map(({ text }) => text)
    .join(',');
}

/** Schema, hint, zero bucket, count, sum and buckets that are not empty. */
export function histogramText(
  schema: number,
  hint: number,
  zeroThreshold: number,
  zeroCount: number,
  count: number,
  sumBits: bigint,
  bounds: readonly number[],
  positive: readonly (readonly [number, number])[],
  negative: readonly (readonly [number, number])[],
): string {
  return JSON.stringify([
    schema,
    hint,
    zeroThreshold,
    zeroCount,
    count,
    String(sumBits),
    bounds,
    positive,
    negative,
  ]);
}

const staleText = 'stale';

function customText(
  point: Json,
  bounds: number[],
  counts: number[],
  isStale: boolean,
  isDelta: boolean,
): string {
  if (isStale) return staleText;
  if (counts.some((count) => count > countMax) || Number(point.count ?? 0) > countMax)
    throw new None();
  if (bounds.some((bound, i) => !Number.isFinite(bound) || (i > 0 && bound <= bounds[i - 1]!)))
    throw new None();
  const kept = counts.map((count, i) => [i, count] as const).filter(([, count]) => count > 0);
  checkTotal(point, 0, kept);
  return histogramText(
    -53,
    isDelta ? 3 : 0,
    0,
    0,
    Number(point.count ?? 0),
    bitsOfDouble(numberOf(point.sum)),
    bounds,
    kept,
    [],
  );
}

function exponentialText(point: Json, isStale: boolean, isDelta: boolean): string {
  if (isStale) return staleText;
  const { scale = 0, zeroThreshold = 0 } = point;
  const threshold = zeroThreshold > 0 ? zeroThreshold : 1e-128;
  const halvings = Math.max(0, scale - 8);
  const sideOf = ({ bucketCounts = [], offset = 0 }: Json = {}): [number, number][] => {
    const kept = new Map<number, number>();
    for (const [i, each] of bucketCounts.entries()) {
      const index = Math.floor((offset + i) / 2 ** halvings) + 1;
      if (Number(each) > 0) kept.set(index, (kept.get(index) ?? 0) + Number(each));
    }
    return [...kept];
  };
  const [positive, negative] = [sideOf(point.positive), sideOf(point.negative)];
  const zeroCount = Number(point.zeroCount ?? 0);
  if (Number(point.count ?? 0) > countMax || zeroCount > countMax) throw new None();
  if (scale < -4 || scale > 52 || threshold === Infinity) throw new None();
  checkTotal(point, zeroCount, [...positive, ...negative]);
  return histogramText(
    scale - halvings,
    isDelta ? 3 : 0,
    threshold,
    zeroCount,
    Number(point.count ?? 0),
    bitsOfDouble(numberOf(point.sum)),
    [],
    positive,
    negative,
  );
}

function checkTotal(
  point: Json,
  zeroCount: number,
  kept: readonly (readonly [number, number])[],
): void {
  const total = kept.reduce((sum, [, count]) => sum + count, zeroCount);
  const count = Number(point.count ?? 0);
  if (Number.isNaN(numberOf(point.sum)) ? total > count : total !== count) throw new None();
}

/** As JSON has it; 0 when it is not there. */
function numberOf(value: Json): number {
  if (value === undefined) return 0;
  if (value === 'NaN') return doubleOf(0x7ff8_0000_0000_0000n);
  return typeof value === 'number' ? value : Number(value);
}

function millisOf(nanos: string | undefined): number {
  return nanos === undefined ? 0 : Number(BigInt(nanos) / 1_000_000n);
}

function textOf(value: Json): string {
  if (value === undefined || Object.keys(value).length === 0) return '';
  if ('stringValue' in value) return value.stringValue;
  return 'bytesValue' in value ? value.bytesValue : jsonText(value);
}

function jsonText(value: Json): string {
  if (value === undefined || Object.keys(value).length === 0) return 'null';
  if ('boolValue' in value) return String(value.boolValue);
  if ('intValue' in value) return value.intValue;
  if ('doubleValue' in value) return String(value.doubleValue);
  if ('bytesValue' in value) return `"${value.bytesValue}"`;
  if ('arrayValue' in value) return `[${(value.arrayValue.values ?? []).map(jsonText).join(',')}]`;
  if ('kvlistValue' in value) {
    const pairs: Json[] = value.kvlistValue.values ?? [];
    const texts = new Map(pairs.map((pair) => [pair.key ?? '', jsonText(pair.value)]));
    const sorted = [...texts].sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    return `{${sorted.map(([key, text]) => `${escaped(key)}:${text}`).join(',')}}`;
  }
  return escaped(value.stringValue);
}

function escaped(text: string): string {
  return JSON.stringify(text)
    .replaceAll('<', '\\u003c')
    .replaceAll('>', '\\u003e')
    .replaceAll('&', '\\u0026');
}
