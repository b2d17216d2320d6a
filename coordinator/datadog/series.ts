/** What a series of Datadog is here: names and labels of its metric, host, device, resources and tags. */
import { badRequest, shownText } from '#lib/errors.ts';
import {
  encodeTags,
  metricNameTag,
  type Tag,
  type TagRules,
  tagsCountMax,
  tagsProblem,
} from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import type { Point, PointBody, PointSeries } from '../ingest/point_series.ts';
import { plainMetricName, plainTagName } from '../ingest/plain_names.ts';
import { seriesText } from '../ingest/writing/refusals.ts';

/** Points of a body. */
const pointsMax = 100_000;
/** The value of a tag that has none, as VictoriaMetrics has it. */
const noValue = 'no_label_value';
/** What nanoseconds of 64 bits hold. */
const secondsMax = 9_223_372_036;

/** A series as it came. */
export interface DatadogSeries {
  readonly metric: string;
  /** Host, device and other resources by their types; '' is none. */
  readonly fields: readonly (readonly [type: string, name: string])[];
  /** `key:value`, or a key alone. */
  readonly tags: readonly string[];
}

/** Puts the series of a body together. */
export class DatadogBody {
  readonly #rules: TagRules;
  readonly #series: PointSeries[] = [];
  readonly #problems: string[] = [];
  #pointCount = 0;

  constructor(rules: TagRules) {
    this.#rules = rules;
  }

  get body(): PointBody {
    return { series: this.#series, problems: this.#problems };
  }

  /** @throws {TsdbError} BAD_REQUEST when there are too many */
  add(series: DatadogSeries, points: readonly Point[]): void {
    if (points.length === 0) return;
    this.#count(points.length);
    const labels = labelsOf(series, this.#rules);
    if (typeof labels !== 'string') this.#series.push({ tags: encodeTags(labels), points });
    else for (const _point of points) this.#problems.push(labels);
  }

  /** A point, or a series, that is left out. */
  refuse(problem: string): void {
    this.#count(1);
    this.#problems.push(problem);
  }

  /** @param points that are read and not added yet @throws {TsdbError} as `add` */
  checkCount(points: number): void {
    if (this.#pointCount + points <= pointsMax) return;
    throw badRequest(`the body has more than ${pointsMax} points`);
  }

  #count(points: number): void {
    this.checkCount(points);
    this.#pointCount += points;
  }
}

/** @returns null for a time that cannot be kept */
export function pointAt(unixSeconds: number, value: number): Point | null {
  const seconds = Math.floor(unixSeconds);
  if (!(Math.abs(seconds) < secondsMax)) return null;
  // Of the seconds that clients send a float64 has microseconds.
  const nanos = Math.round((unixSeconds - seconds) * 1e6) * 1000;
  return nanos === 1e9 ? { seconds: seconds + 1, nanos: 0, value } : { seconds, nanos, value };
}

/** Labels, or why there are none. */
function labelsOf(series: DatadogSeries, rules: TagRules): readonly Tag[] | string {
  const count = series.tags.length + series.fields.length;
  if (count > tagsCountMax) {
    return `${shownText(series.metric)}: more than ${tagsCountMax} tags and resources: ${count}`;
  }
  const tags = tagsOf(series);
  const names = tags.filter(({ name }) => name === metricNameTag);
  if (series.metric === '') return `${seriesText(tags)}: metric: it is empty`;
  const problem =
    names.length > 1
      ? `tag names that begin with "__" are reserved: "${metricNameTag}"`
      : tagsProblem(tags, rules);
  return problem === null ? tags : `${seriesText(tags)}: ${problem}`;
}

/**
 * Fields come before tags: a tag that has the name of one, and another value, is `exported_…`. Of several tags of one key, which
 * Datadog has, the values stand together in their order.
 */
function tagsOf({ metric, fields, tags }: DatadogSeries): Tag[] {
  const ofFields = new Values();
  for (const [type, name] of fields) ofFields.add(plainTagName(type), name);
  const own = ofFields.joined();
  const all = new Values();
  for (const tag of tags) {
    const colon = tag.indexOf(':');
    const name = plainTagName(colon < 0 ? tag : tag.slice(0, colon));
    const value = colon < 0 ? noValue : tag.slice(colon + 1);
    const ownValue = own.get(name);
    if (ownValue === undefined) all.add(name, value);
    else if (ownValue !== value) all.add(`exported_${name}`, value);
  }
  const named = [[metricNameTag, plainMetricName(metric)] as const, ...own, ...all.joined()];
  return named.map(([name, value]) => ({ name, value }));
}

/** Values by their names, each once; an empty one is none. */
class Values {
  readonly #all = new Map<string, Set<string>>();

  add(name: string, value: string): void {
    if (value === '') return;
    const values = this.#all.get(name);
    if (values === undefined) this.#all.set(name, new Set([value]));
    else values.add(value);
  }

  joined(): ReadonlyMap<string, string> {
    return new Map(
      [...this.#all].map(([name, values]) => [name, [...values].toSorted(compareTexts).join()]),
    );
  }
}
