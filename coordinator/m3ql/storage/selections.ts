/** What `fetch` asks of storage: all of its conditions hold, each of a tag by a glob. */
import { assert } from '#lib/assert.ts';
import { metricNameTag } from '#lib/tags.ts';
import type { Selection } from '../../graphite/parse/tree.ts';
import { parsePathPattern, pathMatchers, pathTest } from '../../graphite/storage/path_pattern.ts';
import type { Matcher } from '../../select/storage.ts';
import { parseGlob } from './globs.ts';

export interface TagGlob {
  /** As storage has it. */
  readonly tag: string;
  /** A glob that is not wrong. */
  readonly text: string;
}

const nodeTag = /^__g\d+__$/;

/**
 * Series by their tags, and where a name is asked for, paths of Carbon that are this name by Graphite's patterns, in which `*`
 * stays in its node.
 */
export function selectionsOf(globs: readonly TagGlob[]): readonly Selection[] {
  const byTags = {
    matchers: globs.map(matcherOf).concat(globs.flatMap(presence)),
    takes: () => true,
  };
  const name = globs.find(({ tag }) => tag === metricNameTag)?.text ?? '';
  const others = globs.filter(({ tag }) => tag !== metricNameTag);
  // No path has a backslash in it, and its patterns know no escapes.
  const isPath =
    name !== '' && !name.includes('\\') && others.every(({ tag }) => nodeTag.test(tag));
  if (!isPath) return [byTags];
  const pattern = parsePathPattern(name);
  const test = pathTest(pattern);
  return [
    byTags,
    {
      matchers: [...pathMatchers(pattern), ...others.map(matcherOf), ...others.flatMap(presence)],
      takes: (series) => series.isPath && (test === null || test.takes(series.name)),
      takesUnits: (length) => test?.units(length) ?? 0,
    },
  ];
}

/** Whether series without the tag are taken, and no others. */
export function isAbsence({ text }: TagGlob): boolean {
  return text === '';
}

function matcherOf({ tag, text }: TagGlob): Matcher {
  const glob = parseGlob(text);
  assert(glob.kind !== 'wrong', 'globs are looked at before anything is read');
  if (glob.kind === 'text') return { name: tag, kind: '=', value: text };
  if (glob.kind === 'any') return { name: tag, kind: '!=', value: '' };
  return { name: tag, kind: '=~', value: glob.regexp };
}

/** Globs that take anything take no series without the tag. */
function presence(glob: TagGlob): Matcher[] {
  return isAbsence(glob) ? [] : [{ name: glob.tag, kind: '!=', value: '' }];
}
