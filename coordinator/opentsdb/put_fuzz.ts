/** Bodies of points, whole and damaged: each good point must come to its row, each other one to a refusal, and what is no JSON to neither. */
import assert from 'node:assert/strict';
import { legacyTagRules } from '#lib/tags.ts';
import { countInputs } from '#test/sim/counts.ts';
import { damaged, type Pick, pickOf } from '#test/sim/mutate.ts';
import type { ApiRequest } from '../http/http_api.ts';
import { RowsOfDecoder, TakenPoints, valueOfJson } from '../ingest/rows_testing.ts';
import {
  metrics,
  millisOf,
  numberText,
  rowOf,
  some,
  tagNames,
  tagValues,
  timeText,
  valueOf,
} from './points_testing.ts';
import { put } from './put.ts';

const signal = new AbortController().signal;

/** A value of JSON as text, of any kind now and then. */
function jsonText(pick: Pick, usual: string): string {
  if (pick(25) > 0) return usual;
  return some(pick, [
    'null',
    'true',
    '{}',
    '[]',
    '""',
    '-0',
    '1.5',
    '"\\ud800"',
    '[1]',
    '-1',
    '1e400',
  ]);
}

function numberJson(pick: Pick, text: string): string {
  const isJson = /^-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[-+]?[0-9]+)?$/.test(text);
  return jsonText(pick, isJson && pick(3) > 0 ? text : JSON.stringify(text));
}

function pointText(pick: Pick): string {
  const tags = Array.from({ length: pick(4) }, () => {
    const value = jsonText(pick, JSON.stringify(some(pick, tagValues)));
    return `${JSON.stringify(some(pick, [...tagNames, '__proto__']))}:${value}`;
  });
  const members = [
    `"metric":${jsonText(pick, JSON.stringify(some(pick, metrics)))}`,
    `"timestamp":${numberJson(pick, timeText(pick))}`,
    `"value":${numberJson(pick, numberText(pick))}`,
    `"tags":${jsonText(pick, `{${tags.join(some(pick, [',', ', ']))}}`)}`,
  ];
  if (pick(10) === 0) members.splice(pick(4), 1);
  if (pick(10) === 0)
    members.splice(pick(4), 0, some(pick, ['"x":[{"metric":1}]', '"__proto__":{}']));
  return jsonText(pick, `{${members.join()}}`);
}

function bodyText(pick: Pick): Buffer {
  const points = Array.from({ length: pick(8) }, () => pointText(pick));
  // The longest of them make a list more than is parsed at once.
  const blank = pick(100) === 0 ? ' '.repeat(17_000) : some(pick, ['', '', ' ', '\n']);
  const isOne = points.length > 0 && pick(8) === 0;
  const text = Buffer.from(isOne ? points[0]! : `${blank}[${points.join(`${blank},`)}]${blank}`);
  return pick(3) > 0 ? text : Buffer.from(damaged(pick, text));
}

/** Null for what is no point. */
function rowOfPoint(point: unknown): string | null {
  if (typeof point !== 'object' || point === null || Array.isArray(point)) return null;
  const { metric, timestamp, value, tags = {} } = point as Readonly<Record<string, unknown>>;
  if (typeof metric !== 'string' || typeof tags !== 'object') return null;
  if (tags === null || Array.isArray(tags)) return null;
  const pairs = Object.entries(tags as Readonly<Record<string, unknown>>);
  const isText = (text: unknown): text is string => typeof text === 'string' && text.isWellFormed();
  if (!pairs.every((pair): pair is [string, string] => isText(pair[1]))) return null;
  const isNumber = typeof timestamp === 'number' && Number.isSafeInteger(timestamp);
  const isTime = isNumber || typeof timestamp === 'string';
  const number = typeof value === 'string' ? valueOf(value) : value;
  const isFinite = typeof number === 'number' && Number.isFinite(number);
  return rowOf(metric, isTime ? millisOf(`${timestamp}`) : null, isFinite ? number : null, pairs);
}

export async function fuzz(seed: number, size: number): Promise<void> {
  const pick = pickOf(seed);
  const decoded = new RowsOfDecoder(pick);
  const ingestion = new TakenPoints();
  const request = { header: () => '', signal, urlParameters: new URLSearchParams('summary') };
  for (let round = 0; round < size; round += 1) {
    const bytes = bodyText(pick);
    const where = `seed ${seed}, body ${round}: ${JSON.stringify(bytes.toString().slice(0, 500))}`;
    const setup = { ingest: ingestion.ingest, tagRules: legacyTagRules };
    const answer = await put(setup, request as unknown as ApiRequest, () => Promise.resolve(bytes));
    countInputs('bodies of OpenTSDB');
    const told = JSON.parse(answer.body as string) as { success?: number; failed?: number };
    const value = valueOfJson(bytes);
    const taken = ingestion.take();
    if (taken === null) {
      assert.equal(answer.status, 400, where);
      assert.equal(value, undefined, where);
      continue;
    }
    const { series, problems } = taken;
    const found = decoded.ofSeries(series);
    assert.equal(found.refused, 0, where);
    assert.deepEqual(told, { success: found.rows.length, failed: problems.length }, where);
    if (problems.some((problem) => problem.includes('key is given twice'))) continue;
    const points = (Array.isArray(value) ? value : [value]) as unknown[];
    const rows = points.map(rowOfPoint).filter((row) => row !== null);
    assert.deepEqual(found.rows, rows, where);
    assert.equal(problems.length, points.length - rows.length, where);
  }
}
