/** Requests for paths with what graphite-web 1.1.10 answers, and M3's patterns of paths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expand, find, type FindSetup, index } from '#coordinator/graphite/endpoints/find.ts';
import { GraphiteFinder } from '#coordinator/graphite/storage/finder.ts';
import { parsePathPattern } from '#coordinator/graphite/storage/path_pattern.ts';
import { errorAnswer } from '#coordinator/http/http_api.ts';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { pathOfTags } from '#lib/series_id/from_tags.ts';
import { decodeTags } from '#lib/tags.ts';
import { WriteDecoderKernel } from '#engine/write_decoder/kernel.ts';
import { formatCarbonCleanedUp } from '#engine/write_decoder/lines/layout.ts';
import { options, random } from '#engine/write_decoder/write_decoder_testing.ts';
import { hasSuites, readSuite } from '../suites.ts';
import type { Dataset } from './dataset.ts';
import { SeriesInMemory } from './series_in_memory.ts';
import { answerText, parametersOf, requestOf, settings, turningOf } from './requests.ts';

interface FindCase {
  readonly id: string;
  readonly path: string;
  readonly params: readonly (readonly [string, string | number])[];
  readonly status: number;
  readonly json?: unknown;
}

const handlers = new Map([
  ['/metrics/find', find],
  ['/metrics/expand', expand],
  ['/metrics/index.json', index],
]);

function setupOf(paths: readonly string[]): FindSetup {
  const storage = new SeriesInMemory(paths);
  return {
    source: (_request, limits, range, work) => new GraphiteFinder({ storage, limits, range, work }),
    settings,
    clock: realEnv.clock,
    turningOf,
  };
}

/** Without the times of leaves; of completions of one name graphite-web's order is any. */
function comparable(value: unknown): string {
  return JSON.stringify(value, (key, inner: unknown) => {
    if (key === 'intervals') return undefined;
    if (key !== 'metrics') return inner;
    const metrics = inner as { readonly name: string; readonly path?: string }[];
    const keyOf = ({ name, path = '~' }: (typeof metrics)[number]): string =>
      path === '~' ? path : `${name} ${path}`;
    return metrics.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  });
}

const suite = 'graphite/find_api.json';

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly FindCase[] }>(suite);

  test("find, expand and index answer as graphite-web's", async () => {
    const { series } = readSuite<Dataset>('graphite/dataset.json');
    const setup = setupOf(series.map(({ name }) => name).filter((name) => !name.includes(';')));
    assert.ok(cases.length > 100, `${cases.length}`);
    const different: string[] = [];
    for (const { id, path, params, status, json } of cases) {
      const parameters = parametersOf(params);
      const answer = await handlers.get(path)!(setup, requestOf(parameters), parameters).catch(
        (error: unknown) => errorAnswer(error),
      );
      const shown = `${id}: ${path}?${decodeURIComponent(`${parameters}`)}`;
      const text = await answerText(answer);
      if (answer.status !== status) different.push(`${shown}: ${answer.status} ${text}`);
      if (status === 200) {
        const [actual, expected] = [JSON.parse(text) as unknown, json].map(comparable);
        if (actual !== expected) different.push(`${shown}\n  ${actual}\n  ${expected}`);
      }
    }
    assert.deepEqual(different, []);
  });

  interface M3Paths {
    readonly match: readonly {
      readonly glob: string;
      readonly path: string;
      readonly match: boolean;
    }[];
    readonly globErrors: readonly { readonly glob: string }[];
    readonly find: readonly {
      readonly query: string;
      readonly expected: readonly {
        readonly id: string;
        readonly text: string;
        readonly leaf: number;
      }[];
    }[];
    readonly written: readonly string[];
  }

  /** As Carbon's listener cleans them up. */
  function cleanedUp(paths: readonly string[]): string[] {
    const kernel = new WriteDecoderKernel(random, options.memoryBytesMax);
    const text = Buffer.from(paths.map((path) => `${path} 1 1700000000\n`).join(''));
    const times = { isLast: true, rowsMax: 1000, unitNanos: 1n, nowNanos: 0n };
    assert.equal(kernel.lines([text], { format: formatCarbonCleanedUp, ...times }), text.length);
    const slots = [...new Set(kernel.rowSlots)];
    return slots.map((slot) => pathOfTags(decodeTags(kernel.tags(slot)))!);
  }

  async function found(paths: readonly string[], query: string, format: string): Promise<unknown> {
    const pairs = [['query', query] as const, ['format', format] as const];
    const parameters = parametersOf(pairs);
    return JSON.parse(
      await answerText(await find(setupOf(paths), requestOf(parameters), parameters)),
    );
  }

  test("paths are cleaned up, matched and found as M3's", async () => {
    const all = readSuite<M3Paths>('graphite/m3_paths.json');
    for (const { glob, path, match } of all.match) {
      const nodes = (await found([path], glob, 'json')) as { path: string; is_leaf: boolean }[];
      const leaves = nodes.filter((node) => node.is_leaf).map((node) => node.path);
      assert.deepEqual(leaves, match ? [path] : [], glob);
    }
    for (const { glob } of all.globErrors) {
      assert.throws(() => parsePathPattern(glob), TsdbError, glob);
    }
    const paths = cleanedUp(all.written.map((line) => line.split(' ')[0]!));
    for (const { query, expected } of all.find) {
      const nodes = (await found(paths, query, 'treejson')) as typeof expected;
      // Of a pattern with `**` M3 does not know leaves from branches.
      const shown = ({ id, text, leaf }: (typeof expected)[number]): string =>
        query.includes('**') ? `${id} ${text}` : `${id} ${text} ${leaf}`;
      assert.deepEqual(nodes.map(shown).sort(), expected.map(shown).sort(), query);
    }
  });
}
