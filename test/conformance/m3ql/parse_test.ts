/** Scripts with the calls that M3's grammar of M3QL makes of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formatScript } from '#coordinator/m3ql/parse/format.ts';
import { parseScript } from '#coordinator/m3ql/parse/parser.ts';
import type { Pipeline, Script, Value } from '#coordinator/m3ql/parse/tree.ts';
import { TsdbError } from '#lib/errors.ts';
import { hasSuites, readSuite } from '../suites.ts';

type Event = readonly string[];

interface ParseCase {
  readonly script: string;
  readonly shouldParse: boolean;
  readonly events?: readonly Event[];
}

const suite = 'm3ql-parse.json';

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly ParseCase[] }>(suite);

  test("the parser takes and refuses what M3's grammar does, and makes the same of it", () => {
    assert.ok(cases.length >= 89, `${cases.length}`);
    for (const { script, shouldParse, events } of cases) {
      if (shouldParse) {
        const tree = parseScript(script);
        assert.deepEqual(eventsOf(tree), events, script);
        assert.deepEqual(eventsOf(parseScript(formatScript(tree))), events, script);
      } else {
        assert.throws(
          () => parseScript(script),
          (error) => error instanceof TsdbError && error.code === 'BAD_REQUEST',
          script,
        );
      }
    }
  });
}

function eventsOf({ macros, pipeline }: Script): Event[] {
  const ofMacros = macros.flatMap((macro) => [
    ['macro', macro.name],
    ...ofPipeline(macro.pipeline),
  ]);
  return [...ofMacros, ...ofPipeline(pipeline)];
}

function ofPipeline({ expressions }: Pipeline): Event[] {
  const inside = expressions.flatMap((expression): Event[] => {
    if (expression.kind === 'pipeline') return ofPipeline(expression);
    const ofArguments = expression.arguments.flatMap(({ keyword, value }) => [
      ...(keyword === null ? [] : [['keyword', keyword]]),
      ...ofValue(value),
    ]);
    return [['expr', expression.name], ...ofArguments, ['endExpr']];
  });
  return [['pipeline'], ...inside, ['endPipeline']];
}

const eventOfKind = { boolean: 'bool', number: 'num', pattern: 'pattern', string: 'string' };

function ofValue(value: Value): Event[] {
  return value.kind === 'pipeline' ? ofPipeline(value) : [[eventOfKind[value.kind], value.text]];
}
