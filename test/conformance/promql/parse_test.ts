/** The expressions of Prometheus' parser tests (../shared/suites beside the project). */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { typeOf } from '#coordinator/promql/parse/ast.ts';
import type { Expr } from '#coordinator/promql/parse/ast.ts';
import { allFeatures, noFeatures } from '#coordinator/promql/features.ts';
import { PromqlError } from '#coordinator/promql/parse/errors.ts';
import { parseQuery } from '#coordinator/promql/parse/parser.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';

const suite = new URL('../../../../shared/suites/promql-parse.json', import.meta.url);

interface SuiteCase {
  readonly expr: string;
  readonly shouldParse: boolean;
  /** With all features on. */
  readonly shouldParseExperimental?: boolean;
  readonly type?: string;
  readonly error?: string;
}

/** Metric names that are keywords in front of braces: the grammar cannot tell them apart. */
const knownDifferences = new Set(['offset{step="1s"}[5m]']);

if (!existsSync(suite)) {
  console.log(
    'skipped: expressions of Prometheus are not here (../shared/suites/promql-parse.json)',
  );
} else {
  test("the parser takes and refuses what Prometheus' parser does", async () => {
    const { cases } = JSON.parse(readFileSync(suite, 'utf8')) as { cases: SuiteCase[] };
    let sameMessages = 0;
    let refused = 0;
    for (const { expr, shouldParse, type, error } of cases) {
      if (knownDifferences.has(expr)) continue;
      let parsed: Expr | null = null;
      try {
        parsed = await parseQuery(expr, noFeatures, turningOf());
      } catch (problem) {
        assert.ok(problem instanceof PromqlError, expr);
        if (problem.message === error) sameMessages++;
      }
      assert.equal(parsed !== null, shouldParse, expr);
      if (parsed === null) refused++;
      else assert.equal(typeOf(parsed), type, expr);
    }
    assert.ok(sameMessages >= refused * 0.8, `${sameMessages} of ${refused} messages are the same`);
  });

  test("the parser takes and refuses calls of info() as Prometheus' parser does", async () => {
    const { cases } = JSON.parse(readFileSync(suite, 'utf8')) as { cases: SuiteCase[] };
    const calls = cases.filter(({ expr }) => expr.startsWith('info('));
    for (const { expr, shouldParseExperimental } of calls) {
      const parsing = parseQuery(expr, allFeatures, turningOf());
      if (shouldParseExperimental === true) await parsing;
      else await assert.rejects(parsing, PromqlError, expr);
    }
    assert.ok(calls.length > 0);
  });
}
