/**
 * Work that cannot be divided: one row over windows of millions of samples, one regexp over a text that it
 * needs seconds for. Each kind is a function from what can be sent to a thread to what can be sent back.
 */
import { type AnchoredRegexp, compileAnchored, type RegexpFacts } from '#lib/regexp/regexp.ts';
import { TsdbError } from '#lib/errors.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import { WindowsKernel } from '../window_functions/kernel.ts';
import { makeRowBuffer } from '../window_functions/row.ts';
import type { WindowRequest } from '../window_functions/windows.ts';

/** A row of a stored series. */
export interface SeriesRowJob {
  readonly kind: 'seriesRow';
  readonly request: WindowRequest;
  readonly chunks: Uint8Array;
  readonly startNanos: bigint;
  readonly endNanos: bigint;
}

/** A row over columns, as those of a subquery. */
export interface ColumnsRowJob {
  readonly kind: 'columnsRow';
  readonly request: WindowRequest;
  readonly timestampMillis: Float64Array;
  readonly values: Float64Array;
  readonly rowCount: number;
}

/** What has to be known of a pattern that is dear to compile. */
export interface CompileJob {
  readonly kind: 'compile';
  readonly pattern: string;
}

/** Which of the texts match as a whole. */
export interface RegexpJob {
  readonly kind: 'regexp';
  readonly pattern: string;
  readonly texts: readonly string[];
}

/** What becomes of a text by the template; null when it does not match. */
export interface ReplaceJob {
  readonly kind: 'replace';
  readonly pattern: string;
  readonly text: string;
  readonly template: string;
}

export interface RowAnswer {
  readonly bits: BigUint64Array;
  /** Rows that were decoded. */
  readonly rowCount: number;
}

export interface JobAnswers {
  readonly seriesRow: RowAnswer;
  readonly columnsRow: RowAnswer;
  readonly compile: RegexpFacts;
  readonly regexp: Uint8Array;
  readonly replace: string | null;
}

export type Job = SeriesRowJob | ColumnsRowJob | CompileJob | RegexpJob | ReplaceJob;
export type AnswerOf<One extends Job> = JobAnswers[One['kind']];

let kernel: WindowsKernel | null = null;

/** Regexps of the last jobs: a query has many jobs, and the texts of each are some of them. */
const regexps = new Map<string, AnchoredRegexp>();
const regexpsMax = 8;

function compiled(pattern: string): AnchoredRegexp {
  const regexp = regexps.get(pattern) ?? compileAnchored(pattern);
  regexps.delete(pattern);
  regexps.set(pattern, regexp);
  for (const oldest of regexps.keys()) {
    if (regexps.size <= regexpsMax) break;
    regexps.delete(oldest);
  }
  return regexp;
}

export function doJob<One extends Job>(job: One): AnswerOf<One> {
  return answerOf(job) as AnswerOf<One>;
}

function answerOf(job: Job): JobAnswers[Job['kind']] {
  switch (job.kind) {
    case 'seriesRow': {
      kernel ??= new WindowsKernel();
      const { request, chunks, startNanos, endNanos } = job;
      const row = makeRowBuffer(request.stepCount);
      const bundle = bundleOf(chunks);
      const rowCount = kernel.evaluate(request, bundle, 0, startNanos, endNanos, row, 0);
      return { bits: row.bits, rowCount };
    }
    case 'columnsRow': {
      kernel ??= new WindowsKernel();
      const { request, timestampMillis, values, rowCount } = job;
      const row = makeRowBuffer(request.stepCount);
      kernel.evaluateColumns(request, timestampMillis, values, rowCount, row, 0);
      return { bits: row.bits, rowCount };
    }
    case 'compile':
      return factsOf(job.pattern);
    case 'regexp': {
      const regexp = compiled(job.pattern);
      return Uint8Array.from(job.texts, (text) => (regexp.test(text) ? 1 : 0));
    }
    case 'replace':
      return compiled(job.pattern).replace(job.text, job.template);
    default:
      return job satisfies never;
  }
}

function factsOf(pattern: string): RegexpFacts {
  try {
    const { programSize, matchesEmpty } = compiled(pattern);
    return { problem: null, programSize, matchesEmpty };
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    return { problem: error.message, programSize: 0, matchesEmpty: false };
  }
}

function bundleOf(chunkData: Uint8Array): SeriesBundle {
  return {
    seriesCount: 1,
    tagsData: new Uint8Array(0),
    tagsOffset: new Uint32Array(2),
    idScheme: new Uint8Array(1),
    idData: new Uint8Array(0),
    idOffset: new Uint32Array(2),
    chunkData,
    chunkOffset: Uint32Array.of(0, chunkData.length),
  };
}
