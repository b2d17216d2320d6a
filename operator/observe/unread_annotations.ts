/**
 * Annotations of people that do nothing where they stand, as they have another value or are of another
 * kind of object: whoever has written one waits for what it never does.
 */
import { annotation } from '../resource/keys.ts';
import type { KubeObject } from '../resource/kube_objects.ts';
import type { Observed } from './observe.ts';

/** By kind; the values that do something, null for those that are read with care elsewhere. */
const readByKind: Readonly<Record<string, ReadonlyMap<string, readonly string[] | null>>> = {
  TSDBCluster: new Map([
    [annotation.managedBy, null],
    [annotation.approve, null],
    [annotation.approvePlacement, ['restore', 'anew']],
    [annotation.restoreEtcd, null],
    [annotation.finishUpgrade, ['true']],
  ]),
  TSDBNamespace: new Map([[annotation.adopt, ['true']]]),
  Pod: new Map([
    [annotation.replace, ['true']],
    [annotation.ignoreDoubts, ['true']],
  ]),
};

/** What the operator itself writes. */
const own = new Set<string>([
  annotation.groupSpec,
  annotation.restoredBy,
  annotation.content,
  annotation.template,
]);

const prefix = 'tsdb.io/';

/** @returns a sentence for each */
export function unreadAnnotations({ cluster, claims, pods }: Observed): string[] {
  const objects: readonly KubeObject[] = [cluster, ...claims, ...pods];
  return objects.flatMap((object) =>
    Object.entries(object.metadata.annotations ?? {}).flatMap(([key, value]) => {
      const why = key.startsWith(prefix) ? whyUnread(object.kind, key, value) : null;
      const shown = `${object.kind} ${object.metadata.name}: annotation ${key}`;
      return why === null ? [] : [`${shown}=${value} does nothing: ${why}`];
    }),
  );
}

function whyUnread(kind: string, key: string, value: string): string | null {
  const read = readByKind[kind]!;
  if (own.has(key)) return null;
  if (!read.has(key)) {
    const kinds = Object.keys(readByKind).filter((each) => readByKind[each]!.has(key));
    return kinds.length === 0
      ? `there are ${[...read.keys()].join(', ')}`
      : `it is one of a ${kinds.join(' or ')}`;
  }
  const values = read.get(key) ?? null;
  // Who says false wants that nothing is done.
  if (values === null || values.includes(value) || value === 'false') return null;
  return `what it may be is ${values.join(' or ')}`;
}
