/** The namespaces that a write may go to, and those of them that a request names. */
import type { RowsSince } from '#cluster/namespaces/namespaces.ts';
import type { RegistryVersion } from '#cluster/namespaces/samples.ts';
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import type { WriteRules } from '#lib/block_time.ts';
import { TsdbError } from '#lib/errors.ts';
import type { BodyRows } from './parts.ts';

/** A namespace that takes writes, with what says which times it takes. */
export interface IngestNamespace extends WriteRules, RowsSince {
  readonly name: string;
  /** Of its values, which are messages then. */
  readonly schemas: Schemas | null;
}

export interface IngestNamespaces {
  /** The READY unaggregated ones of the moment; empty when there is none. */
  ready(): readonly IngestNamespace[];
  /** Of which they are. */
  registry(): RegistryVersion;
  /** Reads them from the key-value store now. */
  refresh(signal: AbortSignal): Promise<unknown>;
}

/** Rows of one kind, part by part, and where they go. */
export interface WriteOfKind {
  readonly namespaces: readonly IngestNamespace[];
  /** In which these are all that take the rows; null for those that a request names. */
  readonly registry: RegistryVersion | null;
  readonly parts: Iterable<readonly BodyRows[]>;
}

/**
 * @param named the only one that is meant; null for all
 * @throws {TsdbError} UNAVAILABLE when it is not ready
 */
export function namedOf(
  ready: readonly IngestNamespace[],
  named: string | null,
): readonly IngestNamespace[] {
  if (named === null) return ready;
  const found = ready.filter(({ name }) => name === named);
  if (found.length > 0) return found;
  throw new TsdbError('UNAVAILABLE', `namespace: none of this name is ready: ${named}`);
}
