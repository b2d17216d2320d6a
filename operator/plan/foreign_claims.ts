/** Nothing is done that would mount, fill or delete a volume of others (observe/foreign_claims.ts). */
import type { Action } from '../action/action.ts';
import type { Observed } from '../observe/observe.ts';
import type { KubeObject, StatefulSet } from '../resource/kube_objects.ts';
import type { Reason } from '../part/part.ts';

interface Checked {
  readonly actions: readonly Action[];
  readonly stalled: readonly Reason[];
}

export function withoutForeignClaims(observed: Observed, actions: readonly Action[]): Checked {
  const { foreignClaims } = observed;
  if (foreignClaims.length === 0) return { actions, stalled: [] };
  const held = new Set(
    actions.filter((action) => foreignClaims.some((name) => mounts(observed, action, name))),
  );
  if (held.size === 0) return { actions, stalled: [] };
  const message = `claims that this operator did not make have names of ours: ${foreignClaims.join(', ')}; rename the cluster or its group, or delete them`;
  return {
    actions: actions.filter((action) => !held.has(action)),
    stalled: [{ reason: 'ForeignObject', message }],
  };
}

function mounts(observed: Observed, action: Action, claim: string): boolean {
  if (action.kind === 'scale-set') {
    const before = (action.set as StatefulSet).spec.replicas ?? 1;
    return isOfSet(action.set, Math.max(before, action.replicas), claim);
  }
  if (action.kind !== 'apply') return false;
  const { object } = action;
  if (object.kind === 'StatefulSet') {
    const live = observed.statefulSets.has(object.metadata.name);
    const { replicas = 1 } = (object as StatefulSet).spec;
    return !live && isOfSet(object, replicas, claim);
  }
  const isJob = object.kind === 'Job' || object.kind === 'CronJob';
  return isJob && JSON.stringify(object['spec']).includes(`"claimName":"${claim}"`);
}

function isOfSet({ metadata }: KubeObject, replicas: number, claim: string): boolean {
  const prefix = `data-${metadata.name}-`;
  const ordinal = claim.startsWith(prefix) ? claim.slice(prefix.length) : '';
  return /^[0-9]+$/.test(ordinal) && Number(ordinal) < replicas;
}
