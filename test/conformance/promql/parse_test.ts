/** The expressions of Prometheus' parser tests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { typeOf } from '#coordinator/promql/parse/ast.ts';
import type { Expr } from '#coordinator/promql/parse/ast.ts';
import {
  allFeatures,
  noFeatures,
  type PromqlFeatures,
} from '#coordinator/promql/parse/features.ts';
import { PromqlError } from '#coordinator/promql/words/errors.ts';
import { parseQuery } from '#coordinator/promql/parse/parser.ts';
import { turningOf } from '#engine/aside/turning_testing.ts';
import { hasSuites, readSuite } from '../suites.ts';

const suite = 'promql-parse.json';

interface SuiteCase {
  readonly expr: string;
  readonly shouldParse: boolean;
  readonly shouldParseExperimental: boolean;
  readonly type?: string;
  readonly error?: string;
}

/** The suite is of Prometheus 3.14: in 3.15 duration expressions need no flag. */
const graduated = /experimental duration expression is not enabled$/;

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly SuiteCase[] }>(suite);

  test("the parser takes and refuses what Prometheus' parser does", async () => {
    let sameMessages = 0;
    let compared = 0;
    for (const { expr, shouldParse, shouldParseExperimental, type, error } of cases) {
      const isGraduated = graduated.test(error ?? '');
      const { parsed, message } = await parse(expr, noFeatures);
      assert.equal(parsed !== null, isGraduated ? shouldParseExperimental : shouldParse, expr);
      if (parsed !== null && type !== undefined) assert.equal(typeOf(parsed), type, expr);
      if (parsed !== null || isGraduated) continue;
      compared++;
      if (message === error) sameMessages++;
    }
    console.log(
      `promql-parse.json: ${cases.length} expressions, ${sameMessages} of ${compared} errors in the same words`,
    );
    assert.ok(compared > 90, `${compared}`);
    assert.ok(
      sameMessages >= compared * 0.95,
      `${sameMessages} of ${compared} messages are the same`,
    );
  });

  test("with all features the parser takes what Prometheus' takes with all flags", async () => {
    for (const { expr, shouldParseExperimental } of cases) {
      const { parsed, message } = await parse(expr, allFeatures);
      assert.equal(parsed !== null, shouldParseExperimental, `${expr}: ${message}`);
    }
  });
}

async function parse(
  expr: string,
  features: PromqlFeatures,
): Promise<{ parsed: Expr | null; message: string }> {
  try {
    return { parsed: await parseQuery(expr, features, turningOf()), message: '' };
  } catch (problem) {
    assert.ok(problem instanceof PromqlError, expr);
    return { parsed: null, message: problem.message };
  }
}
