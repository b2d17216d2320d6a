/** Requests of `render` with what graphite-web 1.1.10 answers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { render, type RenderSetup } from '#coordinator/graphite/endpoints/render.ts';
import { errorAnswer } from '#coordinator/http/http_api.ts';
import { hasSuites, readSuite } from '../suites.ts';
import { MemoryDataset } from './dataset.ts';
import { answerText, parametersOf, requestOf, settings, turningOf } from './requests.ts';
import { realEnv } from '#lib/env/real.ts';

interface RenderCase {
  readonly id: string;
  readonly params: readonly (readonly [string, string | number])[];
  readonly status: number;
  readonly contentType: string;
  readonly json?: unknown;
  readonly body?: string;
}

const suite = 'graphite/render_api.json';

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly RenderCase[] }>(suite);

  test("render answers as graphite-web's", async () => {
    assert.ok(cases.length >= 84, `${cases.length}`);
    const different: string[] = [];
    for (const { id, params, status, contentType, json, body } of cases) {
      const dataset = new MemoryDataset();
      const { fetch, findEvents } = dataset.context(0, 0, 0);
      const setup: RenderSetup = {
        source: () => ({ fetch, warnings: new Set(), isExhaustive: true }),
        formatDefault: 'png' as const,
        eventsFor: () => findEvents,
        settings,
        samplesMax: 10_000_000,
        clock: realEnv.clock,
        random: realEnv.random,
        turningOf,
      };
      const parameters = parametersOf(params);
      let answer;
      try {
        answer = await render(setup, requestOf(parameters), parameters);
      } catch (error) {
        answer = errorAnswer(error);
      }
      const shown = `${id}: ${parameters}`;
      const text = await answerText(answer);
      assert.equal(answer.status, status, `${shown}: ${text}`);
      if (status !== 200) continue;
      assert.equal(answer.headers['Content-Type'], contentType, shown);
      if (json === undefined) {
        if (text !== body)
          different.push(`${shown}\n  ${text.slice(0, 300)}\n  ${body!.slice(0, 300)}`);
      } else if (!isNear(JSON.parse(text.replaceAll('1e9999', '"Inf"')), json)) {
        different.push(
          `${shown}\n  ${text.slice(0, 400)}\n  ${JSON.stringify(json).slice(0, 400)}`,
        );
      }
    }
    assert.deepEqual(different, []);
  });
}

/** Equal but for the last digits of numbers. */
function isNear(a: unknown, b: unknown): boolean {
  if (typeof a === 'number' && typeof b === 'number') {
    return a === b || Math.abs(a - b) <= 1e-9 * Math.max(Math.abs(a), Math.abs(b));
  }
  if (Array.isArray(a) && Array.isArray(b)) {
    return a.length === b.length && a.every((item, i) => isNear(item, b[i]));
  }
  if (typeof a === 'object' && typeof b === 'object' && a !== null && b !== null) {
    const keys = Object.keys(a);
    return (
      keys.length === Object.keys(b).length &&
      keys.every((key) =>
        isNear((a as Record<string, unknown>)[key], (b as Record<string, unknown>)[key]),
      )
    );
  }
  return a === b;
}
