/** Texts of OpenMetrics, and whether they are ones; what is one is read without bad lines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OpenMetricsCheck } from '#coordinator/api/lines/openmetrics/check.ts';
import { WriteDecoderKernel } from '#engine/write_decoder/kernel.ts';
import { formatOpenMetrics } from '#engine/write_decoder/lines/layout.ts';
import { options, random } from '#engine/write_decoder/write_decoder_testing.ts';
import { TsdbError } from '#lib/errors.ts';
import { hasSuites, readSuite } from '../suites.ts';

interface Case {
  readonly id: string;
  readonly text: string;
  readonly shouldParse: boolean;
}

const suite = 'lines/openmetrics.json';

/** What is wrong with a text that comes in chunks; null where nothing is. */
function problemOf(bytes: Uint8Array, chunkBytes: number): string | null {
  const check = new OpenMetricsCheck();
  try {
    for (let at = 0; at < bytes.length; at += chunkBytes) {
      for (const _ of check.add(bytes.subarray(at, at + chunkBytes)));
    }
    check.end();
    return null;
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return error.message;
  }
}

if (hasSuites(suite)) {
  const { cases } = readSuite<{ cases: readonly Case[] }>(suite);

  test('texts are taken and refused as OpenMetrics has it', () => {
    assert.ok(cases.length >= 126, `${cases.length}`);
    for (const { id, text, shouldParse } of cases) {
      const bytes = Buffer.from(text);
      const problem = problemOf(bytes, bytes.length || 1);
      assert.equal(problem === null, shouldParse, `${id}: ${problem}: ${JSON.stringify(text)}`);
      assert.equal(problemOf(bytes, 3), problem, id);
      if (!shouldParse) continue;
      const kernel = new WriteDecoderKernel(random, options.memoryBytesMax);
      const lineOptions = {
        format: formatOpenMetrics,
        isLast: true,
        rowsMax: 1000,
        unitNanos: 1n,
        nowNanos: 0n,
      };
      assert.equal(kernel.lines([bytes], lineOptions), bytes.length, id);
      assert.deepEqual(kernel.lineProblems, { count: 0, listed: [] }, id);
      const samples = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
      assert.equal(kernel.rowCount, samples.length, id);
    }
  });
}
