/** Requests for tags with what graphite-web 1.1.10 answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  completeTags,
  completeValues,
  findSeries,
  tagNames,
  type TagsSetup,
  tagValues,
} from '#coordinator/graphite/endpoints/tags.ts';
import { storedTagNames } from '#coordinator/graphite/storage/tag_matchers.ts';
import { errorAnswer } from '#coordinator/http/http_api.ts';
import { realEnv } from '#lib/env/real.ts';
import { hasSuites, readSuite } from '../suites.ts';
import type { Dataset } from './dataset.ts';
import { SeriesInMemory } from './series_in_memory.ts';
import { answerText, parametersOf, requestOf, settings, turningOf } from './requests.ts';

interface TagsCase {
  readonly id: string;
  readonly path: string;
  readonly params: readonly (readonly [string, string | number])[];
  readonly status: number;
  readonly json?: unknown;
}

const handlers = new Map([
  ['/tags', tagNames],
  ['/tags/findSeries', findSeries],
  ['/tags/autoComplete/tags', completeTags],
  ['/tags/autoComplete/values', completeValues],
]);

const suite = 'graphite/tags_api.json';

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly TagsCase[] }>(suite);

  test("requests for tags are answered as graphite-web's, but for its numbers of rows", async () => {
    assert.ok(cases.length >= 25, `${cases.length}`);
    const { series } = readSuite<Dataset>('graphite/dataset.json');
    const storage = new SeriesInMemory(series.map(({ name }) => name));
    const setup: TagsSetup = {
      storage: () => storage,
      settings,
      storedName: storedTagNames('legacy'),
      clock: realEnv.clock,
      turningOf,
    };
    const different: string[] = [];
    for (const { id, path, params, status, json } of cases) {
      const parameters = parametersOf(params);
      const handler = handlers.get(path) ?? tagValues;
      const request = {
        ...requestOf(parameters),
        pathParameters: { tag: path.split('/').at(-1)! },
      };
      const answer = await handler(setup, request, parameters).catch((error: unknown) =>
        errorAnswer(error),
      );
      const text = await answerText(answer);
      const shown = `${id}: ${path}?${parameters}`;
      if (answer.status !== status) different.push(`${shown}: ${answer.status} ${text}`);
      if (status !== 200) continue;
      const [actual, expected] = [JSON.parse(text) as unknown, json].map(withoutIds);
      if (actual !== expected) different.push(`${shown}\n  ${actual}\n  ${expected}`);
    }
    assert.deepEqual(different, []);
  });
}

function withoutIds(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) => (key === 'id' ? undefined : inner));
}
