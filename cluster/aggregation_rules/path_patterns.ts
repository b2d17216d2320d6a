/**
 * Patterns of paths as they are compiled: when they are first needed, once for all rules of the same text, be they of several
 * sets, versions or followers of one process. Those that were not used lately make room for others.
 */
import { SearchRegexp } from '#lib/regexp/regexp.ts';

/** Memory of all: more than those of all sets of a cluster may have together (sets/size.ts), so that none is compiled again and again. */
const keptBytesMax: number = 128 << 20;

/** A pattern is refused when a test of a path of so many characters may hold up others. */
const usualPathCharacters = 64;

/** Whose holder looks whether it is still compiled: it may have made room. */
export interface KeptPattern {
  regexp: SearchRegexp | null;
  /** Since its turn to make room came last. */
  isUsed: boolean;
}

export class PathPatterns {
  readonly #bytesMax: number;
  /** By text, those that were compiled longest ago, or had their turn to make room, first. */
  readonly #kept = new Map<string, KeptPattern>();
  #bytes = 0;
  #compiledCount = 0;

  constructor(bytesMax: number = keptBytesMax) {
    this.#bytesMax = bytesMax;
  }

  /** How often one was compiled. */
  get compiledCount(): number {
    return this.#compiledCount;
  }

  /**
   * Whether it can be compiled: what comes of that is not kept.
   * @returns whether it was compiled for that; false when it is kept
   * @throws {TsdbError} BAD_REQUEST with the reason when it cannot, or would hold up others
   */
  check(text: string): boolean {
    if (this.#kept.has(text)) return false;
    this.#compile(text);
    return true;
  }

  /** @throws {TsdbError} BAD_REQUEST as `check` */
  of(text: string): KeptPattern {
    const before = this.#kept.get(text);
    if (before !== undefined) return before;
    const regexp = this.#compile(text);
    const made = { regexp, isUsed: false };
    this.#bytes += regexp.memoryBytes;
    this.#makeRoom();
    this.#kept.set(text, made);
    return made;
  }

  has(text: string): boolean {
    return this.#kept.has(text);
  }

  #makeRoom(): void {
    for (const [text, kept] of this.#kept) {
      if (this.#bytes <= this.#bytesMax) return;
      this.#kept.delete(text);
      if (kept.isUsed) {
        kept.isUsed = false;
        // It comes again behind the others.
        this.#kept.set(text, kept);
        continue;
      }
      this.#bytes -= kept.regexp!.memoryBytes;
      kept.regexp = null;
    }
  }

  #compile(text: string): SearchRegexp {
    this.#compiledCount += 1;
    const regexp = new SearchRegexp(text);
    regexp.unitsMax(usualPathCharacters);
    return regexp;
  }
}

export const pathPatterns: PathPatterns = new PathPatterns();
