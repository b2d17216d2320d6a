/** What was read for an evaluation: each path and window once. */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import type { EvaluationContext, FetchedSeries, FetchRequest } from './context.ts';
import { requestKey } from './plan.ts';

export class Fetches {
  readonly #context: EvaluationContext;
  readonly #answers = new Map<string, readonly FetchedSeries[]>();
  #seriesCount = 0;
  #rowCount = 0;

  constructor(context: EvaluationContext) {
    this.#context = context;
  }

  /**
   * Reads what of these is not there yet, at once.
   * @throws {TsdbError} BAD_REQUEST when all together is above the limits; and what storage throws
   */
  async ensure(requests: readonly FetchRequest[]): Promise<void> {
    const missing = requests.filter((request) => !this.#answers.has(requestKey(request)));
    if (missing.length === 0) return;
    const { work, fetch } = this.#context;
    const answers = await work.outside(fetch(missing, work.signal));
    work.signal.throwIfAborted();
    assert(answers.length === missing.length, 'an answer for each request');
    for (const [index, request] of missing.entries()) {
      this.#count(answers[index]!);
      this.#answers.set(requestKey(request), answers[index]!);
    }
  }

  /** What `ensure` has read. */
  get(request: FetchRequest): readonly FetchedSeries[] {
    const answer = this.#answers.get(requestKey(request));
    assert(answer !== undefined, 'what is evaluated was read');
    return answer;
  }

  #count(list: readonly FetchedSeries[]): void {
    const { seriesMax, rowsMax } = this.#context.limits;
    this.#seriesCount += list.length;
    for (const { values } of list) this.#rowCount += values.length;
    if (this.#seriesCount > seriesMax) {
      throw badRequest(`cannot evaluate target: reads more than ${seriesMax} series`);
    }
    if (this.#rowCount > rowsMax) {
      throw badRequest(`cannot evaluate target: reads more than ${rowsMax} rows`);
    }
  }
}
