/** What a plan is made of. */
import type { Action } from '../action/action.ts';

export interface Reason {
  readonly reason: string;
  readonly message: string;
}

/** What one part of a cluster needs; the parts do not wait for each other unless they say so. */
export interface Part {
  readonly actions: readonly Action[];
  /** Why nothing more is done now; null when all is as wanted. */
  readonly waiting: Reason | null;
  /** What a person must change. */
  readonly stalled: readonly Reason[];
}

/** Changes of running processes that wait for their approval. */
export interface GatedChanges {
  readonly hash: string;
  readonly actions: readonly string[];
}

export interface Plan extends Part {
  /** They do not depend on each other: one that fails keeps no other from being done. */
  readonly actions: readonly Action[];
  /** What is not tried any more as long as its refusal is remembered. */
  readonly refused?: readonly Action[];
  /** Under updatePolicy Gated: changes that wait for their approval. */
  readonly gated: GatedChanges | null;
  /** Something is left to do that is not done while the cluster is paused. */
  readonly isPending: boolean;
  /**
   * Pods are not all of the newest revision: they wait for an approval, for the cluster's turn, for a
   * maintenance window, or are replaced.
   */
  readonly rollout: 'none' | 'gated' | 'held' | 'closed' | 'begun';
}

export const nothing: Part = { actions: [], waiting: null, stalled: [] };

export const doing = (actions: readonly Action[], reason: string, message: string): Part => ({
  ...nothing,
  actions,
  waiting: { reason, message },
});

export const waitingFor = (reason: string, message: string): Part => doing([], reason, message);

export const stalledBy = (reason: string, message: string): Part => ({
  ...nothing,
  stalled: [{ reason, message }],
});
