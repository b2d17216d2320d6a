/**
 * The regular expressions of a query, so that no compilation holds up others: what takes little is compiled
 * where it is asked for; for the rest the attempt is given up, `learn` compiles it in turns with others, or
 * has it compiled aside, and the attempt is made again. What was compiled lately is kept for all queries.
 */
import { badRequest, shownText, TsdbError } from '../errors.ts';
import type { Work } from '../turns/turns.ts';
import { type AnchoredRegexp, RegexpCompiler, type RegexpFacts } from './regexp.ts';

/** Most compiled patterns that are kept, and the memory of all together. */
const keptMax = 2_000;
const keptBytesMax: number = 64 << 20;

/** Memory of all regexps of a query. */
const queryBytesMax: number = 256 << 20;

/** What one attempt may compile, in units of work: some milliseconds. */
const atOnceUnitsMax = 1_000_000;

/** Or why it cannot be compiled. */
type Outcome = AnchoredRegexp | TsdbError;

/** An attempt needs regexps that are not compiled: `learn` does it first. */
export class NeedsRegexps extends Error {
  override readonly name = 'NeedsRegexps';

  constructor(pattern: string) {
    super(`not compiled yet: ${shownText(pattern)}`);
  }
}

class KeptRegexps {
  /** Least recently used first. */
  readonly #outcomes = new Map<string, Outcome>();
  #bytes = 0;

  get(pattern: string): Outcome | undefined {
    const outcome = this.#outcomes.get(pattern);
    if (outcome === undefined) return undefined;
    this.#outcomes.delete(pattern);
    this.#outcomes.set(pattern, outcome);
    return outcome;
  }

  set(pattern: string, outcome: Outcome): void {
    this.#delete(pattern);
    this.#outcomes.set(pattern, outcome);
    this.#bytes += bytesOf(pattern, outcome);
    for (const oldest of this.#outcomes.keys()) {
      if (this.#outcomes.size <= keptMax && this.#bytes <= keptBytesMax) return;
      this.#delete(oldest);
    }
  }

  #delete(pattern: string): void {
    const outcome = this.#outcomes.get(pattern);
    if (outcome === undefined) return;
    this.#outcomes.delete(pattern);
    this.#bytes -= bytesOf(pattern, outcome);
  }
}

function bytesOf(pattern: string, outcome: Outcome): number {
  return outcome instanceof TsdbError ? 2 * pattern.length + 1_000 : outcome.memoryBytes;
}

const kept = new KeptRegexps();

export class QueryRegexps {
  readonly #isBounded: boolean;
  /** Those of this query, which may not be kept as long as it takes. */
  readonly #outcomes = new Map<string, Outcome>();
  readonly #missing = new Set<string>();
  #unitsLeft: number;
  /** Of those that were learnt. */
  #bytes = 0;

  /** @param isBounded false: everything is compiled where it is asked for, however long it takes */
  constructor(isBounded = true) {
    this.#isBounded = isBounded;
    this.#unitsLeft = isBounded ? atOnceUnitsMax : Number.POSITIVE_INFINITY;
  }

  /**
   * Null when it is not compiled yet; `checkFound` then says so.
   * @throws {TsdbError} BAD_REQUEST for a bad pattern
   */
  find(pattern: string): AnchoredRegexp | null {
    const outcome =
      this.#outcomes.get(pattern) ?? kept.get(pattern) ?? this.#compiledAtOnce(pattern);
    if (outcome === null) {
      this.#missing.add(pattern);
      return null;
    }
    this.#outcomes.set(pattern, outcome);
    if (outcome instanceof TsdbError) throw outcome;
    return outcome;
  }

  /** @throws {TsdbError} as `find`; {NeedsRegexps} when it is not compiled yet */
  compile(pattern: string): AnchoredRegexp {
    const regexp = this.find(pattern);
    if (regexp === null) throw new NeedsRegexps(pattern);
    return regexp;
  }

  /** Whether all that were asked for are compiled. */
  get areFound(): boolean {
    return this.#missing.size === 0;
  }

  /** @throws {NeedsRegexps} when one that was asked for is not compiled yet */
  checkFound(): void {
    for (const pattern of this.#missing) throw new NeedsRegexps(pattern);
  }

  /** Null when it takes too long to be done at once. */
  #compiledAtOnce(pattern: string): Outcome | null {
    let compiler: RegexpCompiler;
    try {
      compiler = new RegexpCompiler(pattern);
    } catch (error) {
      return problemOf(error);
    }
    if (!this.#takes(compiler.readingUnits)) return null;
    while (compiler.read() !== null) continue;
    if (this.#isBounded && compiler.isDear) return null;
    if (!this.#takes(compiler.engineUnits)) return null;
    return finished(compiler, null);
  }

  #takes(units: number): boolean {
    if (units > this.#unitsLeft) return false;
    this.#unitsLeft -= units;
    return true;
  }

  /**
   * Compiles those that an attempt did not find.
   * @param compileAside for those that would hold up others
   * @throws {TsdbError} BAD_REQUEST when they take too much memory; the reason of the work's signal; what
   *   `compileAside` rejects with
   */
  async learn(work: Work, compileAside: (pattern: string) => Promise<RegexpFacts>): Promise<void> {
    for (const pattern of this.#missing) {
      const outcome = kept.get(pattern) ?? (await compiledInTurns(pattern, work, compileAside));
      this.#outcomes.set(pattern, outcome);
      this.#bytes += bytesOf(pattern, outcome);
      if (this.#bytes > queryBytesMax) {
        throw badRequest('cannot compile regexps: those of the query are too many, or too large');
      }
    }
    this.#missing.clear();
    this.#unitsLeft = atOnceUnitsMax;
  }
}

async function compiledInTurns(
  pattern: string,
  work: Work,
  compileAside: (pattern: string) => Promise<RegexpFacts>,
): Promise<Outcome> {
  let compiler: RegexpCompiler;
  try {
    compiler = new RegexpCompiler(pattern);
  } catch (error) {
    return problemOf(error);
  }
  for (let units = compiler.read(); units !== null; units = compiler.read()) {
    if (work.spend(units)) await work.pause();
  }
  if (compiler.isDear) return finished(compiler, await work.outside(compileAside(pattern)));
  if (work.spend(compiler.engineUnits)) await work.pause();
  return finished(compiler, null);
}

/** Keeps what comes of it. */
function finished(compiler: RegexpCompiler, facts: RegexpFacts | null): Outcome {
  let outcome: Outcome;
  try {
    outcome = compiler.finish(facts);
  } catch (error) {
    outcome = problemOf(error);
  }
  kept.set(compiler.pattern, outcome);
  return outcome;
}

/** Of a pattern; other errors are thrown. */
function problemOf(error: unknown): TsdbError {
  if (error instanceof TsdbError && error.code === 'BAD_REQUEST') return error;
  throw error;
}
