/** What a plan is made of. */
import type { KubeObject, Pod } from '../resource/kube_objects.ts';
import type { InstanceRequest } from '../coordinator/coordinator_client.ts';

export type Action =
  | { readonly kind: 'apply'; readonly object: KubeObject }
  | { readonly kind: 'delete'; readonly object: KubeObject; readonly orphan: boolean }
  | { readonly kind: 'delete-pod'; readonly pod: Pod; readonly reason: string }
  | { readonly kind: 'expand-claim'; readonly claim: KubeObject; readonly size: string }
  | {
      readonly kind: 'placement-init';
      readonly numberOfShards: number;
      readonly replicationFactor: number;
      readonly instances: readonly InstanceRequest[];
    }
  | { readonly kind: 'placement-add'; readonly instances: readonly InstanceRequest[] }
  | { readonly kind: 'placement-remove'; readonly instanceIds: readonly string[] }
  | { readonly kind: 'namespace-add'; readonly name: string; readonly options: object }
  | { readonly kind: 'namespace-update'; readonly name: string; readonly options: object }
  | { readonly kind: 'namespace-ready'; readonly name: string }
  | { readonly kind: 'namespace-delete'; readonly name: string };

export interface Reason {
  readonly reason: string;
  readonly message: string;
}

export interface Plan {
  /** They do not depend on each other: one that fails keeps no other from being done. */
  readonly actions: readonly Action[];
  /** Why nothing more is done now; null when all is as wanted. */
  readonly waiting: Reason | null;
  /** Something a person must change. */
  readonly stalled: Reason | null;
  /** Under updatePolicy Gated: changes that wait for their approval. */
  readonly gated: { readonly hash: string; readonly actions: readonly string[] } | null;
}

export const nothing: Plan = { actions: [], waiting: null, stalled: null, gated: null };

export const doing = (actions: readonly Action[], reason: string, message: string): Plan => ({
  ...nothing,
  actions,
  waiting: { reason, message },
});

export const waitingFor = (reason: string, message: string): Plan => doing([], reason, message);

export const stalledBy = (reason: string, message: string): Plan => ({
  ...nothing,
  stalled: { reason, message },
});
