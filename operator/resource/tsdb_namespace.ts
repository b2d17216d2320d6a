/**
 * A TSDBNamespace as the operator reads it (schema: crds/tsdbnamespaces.yaml), and what a namespace
 * may ask for wherever it stands. desired/namespaces.ts makes the coordinator's options of it.
 */
import type { Condition, KubeObject } from './kube_objects.ts';

export interface NamespaceSpec {
  readonly retentionTime?: string;
  readonly blockSize?: string;
  readonly bufferPast?: string;
  readonly bufferFuture?: string;
  readonly coldWritesEnabled?: boolean;
  /** Of windows, which are kept in the place of samples. */
  readonly resolution?: string;
  /** Whether it has those of all series, or of those alone that rules name. */
  readonly downsampleAll?: boolean;
}

export interface TsdbNamespace extends KubeObject {
  readonly spec: NamespaceSpec & {
    readonly clusterRef: { readonly name: string };
    readonly name?: string;
    readonly reclaimPolicy?: 'Retain' | 'Delete';
  };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly namespace?: string;
    readonly conditions?: readonly Condition[];
  };
}
