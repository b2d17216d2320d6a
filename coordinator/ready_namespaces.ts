/** The namespaces that rows are written to and queries read. */
import { isCompanion } from '#cluster/namespaces/companions.ts';
import {
  aggregationOf,
  isReady,
  isUnaggregated,
  type Namespace,
  rowsSinceOf,
  writeRulesOf,
} from '#cluster/namespaces/namespaces.ts';
import { isOfWindows } from '#cluster/namespaces/samples.ts';
import { schemasOf } from '#cluster/namespaces/schemas.ts';
import type { Topology } from '#cluster/topology/topology.ts';
import { TsdbError } from '#lib/errors.ts';
import type { IngestNamespace } from './ingest/writing/namespaces.ts';
import type { WindowsNamespace } from './select/fanout.ts';

/** READY unaggregated namespaces of samples, listed anew only when the registry is another one. */
export class ReadyNamespaces {
  readonly #topology: Pick<Topology, 'view'>;
  #of: unknown = null;
  #all: readonly IngestNamespace[] = [];
  #resolutions: readonly WindowsNamespace[] = [];

  constructor(topology: Pick<Topology, 'view'>) {
    this.#topology = topology;
  }

  /** READY aggregated ones; none as long as nothing is known of the cluster. */
  get resolutions(): readonly WindowsNamespace[] {
    if (this.#topology.view.isLoaded) void this.list;
    return this.#resolutions;
  }

  /** @throws {TsdbError} UNAVAILABLE as long as nothing is known of the cluster */
  get list(): readonly IngestNamespace[] {
    const { namespaces, isLoaded } = this.#topology.view;
    if (!isLoaded) {
      const problem = 'the key-value store has not been read yet: namespaces are not known';
      throw new TsdbError('UNAVAILABLE', problem);
    }
    if (this.#of === namespaces) return this.#all;
    this.#of = namespaces;
    const takes = (namespace: Namespace): boolean =>
      isReady(namespace) && isUnaggregated(namespace) && !isCompanion(namespace.name);
    this.#resolutions = [...namespaces.values()].flatMap((namespace) => {
      if (!isReady(namespace) || !isOfWindows(namespace)) return [];
      const { name, completeSinceNanos = 0n } = namespace;
      const { retentionPeriodNanos: retentionNanos } = namespace.options.retentionOptions;
      const { resolutionNanos, downsampleAll: takesAll } = aggregationOf(namespace)!;
      return [{ name, retentionNanos, resolutionNanos, completeSinceNanos, takesAll }];
    });
    this.#all = [...namespaces.values()].filter(takes).map(ingestNamespaceOf);
    return this.#all;
  }
}

export function ingestNamespaceOf(namespace: Namespace): IngestNamespace {
  return {
    name: namespace.name,
    schemas: schemasOf(namespace),
    ...rowsSinceOf(namespace),
    ...writeRulesOf(namespace.options),
  };
}
