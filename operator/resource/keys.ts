/** Names under which the operator is known to Kubernetes: its API group, labels, annotations. */

export const apiVersion = 'tsdb.io/v1alpha1';

/** Who applies our objects' fields (server-side apply). */
export const fieldManager = 'tsdb-operator';

export const label = {
  cluster: 'tsdb.io/cluster',
  component: 'tsdb.io/component',
  group: 'tsdb.io/isolation-group',
} as const;

export const annotation = {
  /** On a TSDBCluster under updatePolicy Gated: the hash of the plan that may be carried out. */
  approve: 'tsdb.io/approve',
  /** On a child object: the hash of what it was made from. */
  content: 'tsdb.io/content-hash',
} as const;

export const finalizer = 'tsdb.io/cleanup';
