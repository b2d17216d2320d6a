/** Values and series that stay: by a comparison, for how long, or by a tag. */
import { assert } from '#lib/assert.ts';
import { LightRegexp } from '#lib/regexp/light_regexp.ts';
import type { Call } from '../../graphite/calls/call.ts';
import { inParts, madeColumns } from '../../graphite/series/making.ts';
import { mapValues } from '../../graphite/series/map_values.ts';
import type { Columns, Series } from '../../graphite/series/series.ts';
import { made } from '../calls/functions.ts';
import { needs, type ScriptFunction } from '../calls/parameters.ts';
import { tagKey } from '../series/tags.ts';
import { parseGlob } from '../storage/globs.ts';

function comparing(
  names: string,
  isRight: (value: number, than: number) => boolean,
): ScriptFunction {
  return made(names, [needs('value', 'number')], async (call) => {
    const than = call.arguments.number('value');
    const kept = (value: number): number | null => (isRight(value, than) ? value : null);
    return await call.map(await call.list(), async (series) => ({
      ...series,
      ...(await mapValues(series, kept, call)),
    }));
  });
}

/** Values that have gone on for so long, without a gap. */
async function sustain(call: Call): Promise<readonly Series[]> {
  const seconds = call.arguments.interval('duration');
  return await call.map(await call.list(), async (series) => ({
    ...series,
    ...(await sustained(call, series, Math.floor(seconds / series.stepSeconds))),
  }));
}

async function sustained(
  call: Call,
  { values, present }: Columns,
  rowsMin: number,
): Promise<Columns> {
  const columns = await madeColumns(values.length, call);
  let rows = 0;
  await inParts(values.length, call.work, (first, past) => {
    for (let i = first; i < past; i++) {
      rows = present[i] === 1 ? rows + 1 : 0;
      if (rows === 0 || rows < rowsMin) continue;
      columns.values[i] = values[i]!;
      columns.present[i] = 1;
    }
  });
  return columns;
}

/** A series without the tag has an empty one. */
async function excludeByTag(call: Call): Promise<readonly Series[]> {
  const tag = tagKey(call.arguments.text('tag'));
  const isTaken = globTest(call.arguments.text('pattern'));
  const kept: Series[] = [];
  for (const series of await call.list()) {
    const value = series.tags.get(tag) ?? '';
    if (call.work.spend(isTaken.units(value.length))) await call.work.pause();
    if (!isTaken.test(value)) kept.push(series);
  }
  return kept;
}

interface GlobTest {
  test(value: string): boolean;
  /** About what it takes, in units of work. @throws {TsdbError} BAD_REQUEST when it may hold up others */
  units(length: number): number;
}

function globTest(text: string): GlobTest {
  const glob = parseGlob(text);
  assert(glob.kind !== 'wrong', 'globs are looked at before anything is read');
  if (glob.kind === 'any') return { test: (value) => value !== '', units: () => 100 };
  if (glob.kind === 'text') return { test: (value) => value === text, units: () => 100 };
  const regexp = new LightRegexp(glob.regexp);
  return {
    test: (value) => value !== '' && regexp.test(value),
    units: (length) => 100 + regexp.units(length),
  };
}

export const keptFunctions: readonly ScriptFunction[] = [
  comparing('eq ==', (value, than) => value === than),
  comparing('ne !=', (value, than) => value !== than),
  comparing('ge >=', (value, than) => value >= than),
  comparing('gt >', (value, than) => value > than),
  comparing('le <=', (value, than) => value <= than),
  comparing('lt <', (value, than) => value < than),
  made('excludeByTag', [needs('tag', 'tag'), needs('pattern', 'glob')], excludeByTag),
  made('sustain', [needs('duration', 'interval')], sustain),
];
