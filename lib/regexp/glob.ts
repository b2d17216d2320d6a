/**
 * Globs: literals with gaps between them, as nearly all dashboards use them (`api-.*`, `.+-db`). They are
 * matched without a regexp engine, in time that is linear in the text: the literals between gaps are sought
 * leftmost and are short, the first and the last one are compared in place.
 */

/** Literals with gaps between them: parts[0] gap[0] parts[1] gap[1] … parts[n]. */
export interface Glob {
  readonly parts: readonly string[];
  /** Least number of characters of each gap: 0 for `.*`, 1 for `.+`. One shorter than `parts`. */
  readonly gaps: readonly (0 | 1)[];
}

/** Globs that a text is compared with one after the other. */
export const globsTriedMax = 256;
/** Lengths of the first literals of many globs: for each there is a look-up. */
const globLengthsMax = 64;

/** True when the whole text matches. */
export function globMatches(glob: Glob, text: string): boolean {
  const { parts, gaps } = glob;
  const first = parts[0]!;
  if (gaps.length === 0) return text === first;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (let i = 1; i < parts.length - 1; i++) {
    at = skipCharacters(text, at, gaps[i - 1]!);
    if (at < 0) return false;
    at = text.indexOf(parts[i]!, at);
    if (at < 0) return false;
    at += parts[i]!.length;
  }
  at = skipCharacters(text, at, gaps[gaps.length - 1]!);
  const last = parts[parts.length - 1]!;
  return at >= 0 && text.length - at >= last.length && text.endsWith(last);
}

/** Position after `count` (0 or 1) characters from `at`, or -1 when the text ends before. */
function skipCharacters(text: string, at: number, count: 0 | 1): number {
  if (count === 0) return at;
  if (at >= text.length) return -1;
  return at + (text.codePointAt(at)! > 0xffff ? 2 : 1);
}

/** Many globs: of them those are tried whose first literal the text begins with. */
export class GlobTable {
  readonly #byFirst: ReadonlyMap<string, readonly Glob[]>;
  /** Of the first literals, ascending. */
  readonly #lengths: readonly number[];
  /** Texts and globs that a text may have to be compared with. */
  readonly comparedMax: number;

  private constructor(
    byFirst: ReadonlyMap<string, readonly Glob[]>,
    mostOfLength: ReadonlyMap<number, number>,
  ) {
    this.#byFirst = byFirst;
    this.#lengths = [...mostOfLength.keys()].sort((a, b) => a - b);
    this.comparedMax = [...mostOfLength.values()].reduce((sum, most) => sum + 1 + most, 0);
  }

  /** Null when a text would have to be compared with too many of them. */
  static of(globs: readonly Glob[]): GlobTable | null {
    const byFirst = new Map<string, Glob[]>();
    const mostOfLength = new Map<number, number>();
    for (const glob of globs) {
      const first = glob.parts[0]!;
      const sharing = byFirst.get(first) ?? [];
      if (sharing.length === 0) byFirst.set(first, sharing);
      sharing.push(glob);
      const most = Math.max(mostOfLength.get(first.length) ?? 0, sharing.length);
      mostOfLength.set(first.length, most);
      if (most > globsTriedMax || mostOfLength.size > globLengthsMax) return null;
    }
    return new GlobTable(byFirst, mostOfLength);
  }

  matches(text: string): boolean {
    for (const length of this.#lengths) {
      if (length > text.length) return false;
      const globs = this.#byFirst.get(text.slice(0, length));
      if (globs === undefined) continue;
      for (const glob of globs) if (globMatches(glob, text)) return true;
    }
    return false;
  }
}

/** A glob over UTF-8 bytes. */
export interface ByteGlob {
  readonly parts: readonly Uint8Array[];
  readonly gaps: readonly (0 | 1)[];
}

export function byteGlobOf(glob: Glob): ByteGlob {
  const encoder = new TextEncoder();
  return { parts: glob.parts.map((part) => encoder.encode(part)), gaps: glob.gaps };
}

/** True when bytes[start, end), which are UTF-8, match as a whole. */
export function byteGlobMatches(
  glob: ByteGlob,
  bytes: Uint8Array,
  start: number,
  end: number,
): boolean {
  const { parts, gaps } = glob;
  const first = parts[0]!;
  if (end - start < first.length || !equalAt(bytes, start, first)) return false;
  let at = start + first.length;
  if (gaps.length === 0) return at === end;
  for (let i = 1; i < parts.length - 1; i++) {
    at = skipRune(bytes, at, end, gaps[i - 1]!);
    if (at < 0) return false;
    at = seek(bytes, at, end, parts[i]!);
    if (at < 0) return false;
    at += parts[i]!.length;
  }
  at = skipRune(bytes, at, end, gaps[gaps.length - 1]!);
  const last = parts[parts.length - 1]!;
  return at >= 0 && end - at >= last.length && equalAt(bytes, end - last.length, last);
}

function skipRune(bytes: Uint8Array, at: number, end: number, count: 0 | 1): number {
  if (count === 0) return at;
  if (at >= end) return -1;
  let next = at + 1;
  while (next < end && (bytes[next]! & 0xc0) === 0x80) next++;
  return next;
}

function seek(bytes: Uint8Array, start: number, end: number, part: Uint8Array): number {
  const last = end - part.length;
  for (let at = start; at <= last; at++) if (equalAt(bytes, at, part)) return at;
  return -1;
}

function equalAt(bytes: Uint8Array, at: number, part: Uint8Array): boolean {
  for (let i = 0; i < part.length; i++) if (bytes[at + i] !== part[i]) return false;
  return true;
}
