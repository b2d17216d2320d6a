/**
 * About what it takes the engine to compile a pattern and to make its first step, told by its text alone: its
 * length, its classes, and what is repeated. Rather too much than too little, in units of work
 * (lib/turns/turns.ts).
 */

/** Of a character, an operator, a small class. */
const characterUnits = 500;
/** Of a class by a property of Unicode: it has hundreds of ranges. */
const propertyUnits = 15_000;
/** Of a range of characters when case does not matter: each is looked up. */
const foldedRangeUnits = 3_000_000;
const foldedAsciiUnits = 3_000;

class Estimate {
  readonly #pattern: string;
  #at = 0;
  /** Whether case may not matter from here on. */
  #isFolded = false;
  /** Of the group that is open, and of those around it. */
  #units = 0;
  readonly #outer: number[] = [];
  #outerUnits = 0;
  /** Whether a name of a class may still end somewhere. */
  #hasNamedClasses = true;

  constructor(pattern: string) {
    this.#pattern = pattern;
  }

  /** @param enough from where on it need not be known */
  units(enough: number): number {
    const pattern = this.#pattern;
    while (this.#at < pattern.length && this.#outerUnits + this.#units < enough) {
      const units = this.#atom();
      this.#units += units * this.#copies();
    }
    return this.#outerUnits + this.#units;
  }

  /** Reads what a repetition may stand behind. @returns what it takes */
  #atom(): number {
    const character = this.#pattern[this.#at]!;
    this.#at++;
    switch (character) {
      case '\\':
        return this.#escape();
      case '[':
        return this.#class();
      case '(':
        this.#open();
        return characterUnits;
      case ')': {
        const units = this.#units;
        this.#units = this.#outer.pop() ?? 0;
        this.#outerUnits -= this.#units;
        return units + characterUnits;
      }
      default:
        return characterUnits;
    }
  }

  #open(): void {
    const pattern = this.#pattern;
    if (pattern[this.#at] === '?') {
      const flags = /\?([a-zA-Z]*)(?:-[a-zA-Z]*)?([:)])/y;
      flags.lastIndex = this.#at;
      const found = flags.exec(pattern);
      if (found !== null) {
        this.#at = flags.lastIndex;
        if (found[1]!.includes('i')) this.#isFolded = true;
        if (found[2] === ')') return;
      }
    }
    this.#outer.push(this.#units);
    this.#outerUnits += this.#units;
    this.#units = 0;
  }

  /** Behind the backslash. */
  #escape(): number {
    const pattern = this.#pattern;
    const letter = pattern[this.#at] ?? '';
    this.#at++;
    if (letter === 'p' || letter === 'P') {
      const close = pattern[this.#at] === '{' ? pattern.indexOf('}', this.#at) : this.#at;
      this.#at = (close < 0 ? pattern.length : close) + 1;
      return this.#isFolded ? 2 * propertyUnits : propertyUnits;
    }
    if (letter === 'x' && pattern[this.#at] === '{') {
      const close = pattern.indexOf('}', this.#at);
      this.#at = close < 0 ? pattern.length : close + 1;
    }
    if (this.#isFolded && 'dswDSW'.includes(letter)) return foldedAsciiUnits;
    if (letter === 'Q') {
      const close = pattern.indexOf('\\E', this.#at);
      const end = close < 0 ? pattern.length : close;
      const length = end - this.#at;
      this.#at = close < 0 ? end : end + 2;
      return length * characterUnits;
    }
    return characterUnits;
  }

  /** Behind the bracket. */
  #class(): number {
    const pattern = this.#pattern;
    let units = characterUnits;
    if (pattern[this.#at] === '^') {
      this.#at++;
      units *= 2;
    }
    for (let isFirst = true; this.#at < pattern.length; isFirst = false) {
      if (pattern[this.#at] === ']' && !isFirst) break;
      units += this.#classItem();
    }
    this.#at++;
    return units;
  }

  #classItem(): number {
    const pattern = this.#pattern;
    if (this.#hasNamedClasses && pattern.startsWith('[:', this.#at)) {
      const close = pattern.indexOf(':]', this.#at);
      this.#hasNamedClasses = close >= 0;
      if (close >= 0) {
        this.#at = close + 2;
        return this.#isFolded ? foldedAsciiUnits : characterUnits;
      }
    }
    const from = this.#at;
    let units = this.#classCharacter();
    if (pattern[this.#at] === '-' && (pattern[this.#at + 1] ?? ']') !== ']') {
      this.#at++;
      units += this.#classCharacter();
      if (this.#isFolded) {
        const isAscii = /^[ -~]-[ -~]$/.test(pattern.slice(from, this.#at));
        units += isAscii ? foldedAsciiUnits : foldedRangeUnits;
      }
    }
    return units;
  }

  #classCharacter(): number {
    const character = this.#pattern[this.#at]!;
    this.#at++;
    return character === '\\' ? this.#escape() : characterUnits;
  }

  /** Reads a repetition. @returns how often what stands before it is there */
  #copies(): number {
    if (this.#pattern[this.#at] !== '{') return 1;
    const counted = /\{(\d{1,4})(,(\d{0,4}))?\}/y;
    counted.lastIndex = this.#at;
    const found = counted.exec(this.#pattern);
    if (found === null) return 1;
    this.#at = counted.lastIndex;
    return Math.max(1, Number(found[1]) + 1, Number(found[3] ?? 0));
  }
}

/** @param enough from where on it need not be known precisely */
export function engineUnits(pattern: string, enough: number): number {
  return new Estimate(pattern).units(enough);
}

/** About how many instructions a pattern is compiled to. @param enough from where on it need not be known precisely */
export function programSizeOf(pattern: string, enough: number): number {
  return Math.ceil(engineUnits(pattern, enough * characterUnits) / characterUnits);
}
