/** Series of Datadog as JSON, of version 1 and 2 of its API. */
import { badRequest } from '#lib/errors.ts';
import { shownJson } from '#lib/json_fields.ts';
import type { Work } from '#lib/turns/turns.ts';
import type { Point } from '../ingest/point_series.ts';
import { type DatadogBody, type DatadogSeries, pointAt } from './series.ts';

/** About what it takes to put a series together, and for each of its points and tags, in units of work (lib/turns/turns.ts). */
const seriesUnits = 3_000;
const itemUnits = 300;

type JsonObject = Readonly<Record<string, unknown>>;

export type DatadogVersion = 1 | 2;

/**
 * Takes the series of a body.
 * @throws {TsdbError} BAD_REQUEST when it has none, or too many
 */
export async function takeJson(
  value: unknown,
  version: DatadogVersion,
  body: DatadogBody,
  work: Work,
): Promise<void> {
  const list = isObject(value) ? value['series'] : undefined;
  if (!Array.isArray(list)) throw badRequest(`series: not a list of series: ${shownJson(list)}`);
  for (const [place, series] of (list as unknown[]).entries()) {
    const path = `series[${place}]`;
    const read = seriesOf(series, version);
    if (typeof read === 'string') body.refuse(`${path}${read}`);
    else {
      const points = await pointsOf((series as JsonObject)['points'], path, version, body, work);
      body.add(read, points);
      if (work.spend(itemUnits * read.tags.length)) await work.pause();
    }
    if (work.spend(seriesUnits)) await work.pause();
  }
}

/** The series without its points, or why it is none: a path in it, and the reason. */
function seriesOf(series: unknown, version: DatadogVersion): DatadogSeries | string {
  if (!isObject(series)) return `: not an object: ${shownJson(series)}`;
  const { metric, points } = series;
  if (typeof metric !== 'string') return `.metric: not a text: ${shownJson(metric)}`;
  if (!Array.isArray(points)) return `.points: not a list: ${shownJson(points)}`;
  const tags = series['tags'] ?? [];
  if (!Array.isArray(tags)) return `.tags: not a list: ${shownJson(tags)}`;
  const wrong = (tags as unknown[]).find((tag) => typeof tag !== 'string');
  if (wrong !== undefined) return `.tags: not a text: ${shownJson(wrong)}`;
  const fields = version === 1 ? fieldsOfV1(series) : fieldsOfV2(series['resources'] ?? []);
  if (typeof fields === 'string') return fields;
  const texts = [metric, ...(tags as string[]), ...fields.flat()];
  const broken = texts.find((text) => !text.isWellFormed());
  if (broken !== undefined) {
    return `: not Unicode, a half of a surrogate pair alone: ${shownJson(broken)}`;
  }
  return { metric, fields, tags: tags as string[] };
}

function fieldsOfV1(series: JsonObject): [string, string][] | string {
  const fields: [string, string][] = [];
  for (const name of ['host', 'device']) {
    const value = series[name] ?? '';
    if (typeof value !== 'string') return `.${name}: not a text: ${shownJson(value)}`;
    if (value !== '') fields.push([name, value]);
  }
  return fields;
}

function fieldsOfV2(resources: unknown): [string, string][] | string {
  if (!Array.isArray(resources)) return `.resources: not a list: ${shownJson(resources)}`;
  const fields: [string, string][] = [];
  for (const resource of resources as unknown[]) {
    const { type, name } = isObject(resource) ? resource : {};
    if (typeof type !== 'string' || typeof name !== 'string') {
      return `.resources: no type and name that are texts: ${shownJson(resource)}`;
    }
    fields.push([type, name]);
  }
  return fields;
}

async function pointsOf(
  points: unknown,
  path: string,
  version: DatadogVersion,
  body: DatadogBody,
  work: Work,
): Promise<Point[]> {
  const good: Point[] = [];
  for (const [place, point] of (points as unknown[]).entries()) {
    const [time, value] = version === 1 ? pairOf(point) : membersOf(point);
    const at = typeof time === 'number' ? pointAt(time, 0) : null;
    if (at !== null && typeof value === 'number' && Number.isFinite(value)) {
      good.push({ ...at, value });
    } else {
      const expected = version === 1 ? '[seconds, value]' : 'timestamp in seconds and value';
      body.refuse(
        `${path}.points[${place}]: not ${expected} that are numbers in range: ${shownJson(point)}`,
      );
    }
    if (work.spend(itemUnits)) await work.pause();
  }
  return good;
}

function pairOf(point: unknown): readonly unknown[] {
  return Array.isArray(point) && point.length === 2 ? (point as unknown[]) : [];
}

function membersOf(point: unknown): readonly unknown[] {
  return isObject(point) ? [point['timestamp'], point['value']] : [];
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
