/** Names under which the operator is known to Kubernetes: its API group, labels, annotations. */

export const apiVersion = 'tsdb.io/v1alpha1';

/** Who applies our objects' fields (server-side apply). */
export const fieldManager = 'tsdb-operator';

/** The label and its value by which objects of this operator are known. */
export const managedByLabel = 'app.kubernetes.io/managed-by';
export const managedBy = 'tsdb-operator';

export const label = {
  cluster: 'tsdb.io/cluster',
  component: 'tsdb.io/component',
  group: 'tsdb.io/isolation-group',
} as const;

export const annotation = {
  /** On a TSDBCluster: `namespace/name` of the lease of the operator that looks after it. */
  managedBy: 'tsdb.io/managed-by',
  /** On a TSDBCluster under updatePolicy Gated: the hash of the plan that may be carried out. */
  approve: 'tsdb.io/approve',
  /**
   * On a TSDBCluster whose placement is gone: `restore` brings back what the nodes know, `anew` begins
   * with an empty one. Taken away when the placement stands.
   */
  approvePlacement: 'tsdb.io/approve-placement',
  /**
   * On a TSDBCluster whose etcd has lost its data: `empty` begins anew; the name of a snapshot, or
   * `latest`, brings that back. Taken away when the placement stands.
   */
  restoreEtcd: 'tsdb.io/restore-etcd',
  /** On a TSDBCluster, `true`: the newest formats are written from now on. Taken away when they are. */
  finishUpgrade: 'tsdb.io/finish-upgrade',
  /** On a pod of a node or of etcd, `true`: it is replaced, with its volume, as soon as that is safe. */
  replace: 'tsdb.io/replace',
  /** On a pod of a node, `true`: it may go although other owners of its shards lack blocks. */
  ignoreDoubts: 'tsdb.io/ignore-doubts',
  /** On a TSDBNamespace, `true`: a namespace that is there already becomes its own. */
  adopt: 'tsdb.io/adopt',
  /** On the set of an isolation group: what the resource says of the group, as JSON. */
  groupSpec: 'tsdb.io/isolation-group-spec',
  /** On a volume of etcd: the job that was to fill it. */
  restoredBy: 'tsdb.io/restored-by',
  /** On a child object: the hash of what it was made from. */
  content: 'tsdb.io/content-hash',
  /** On a child object with pods: the hash of what they are made from. */
  template: 'tsdb.io/template-hash',
} as const;

export const finalizer = 'tsdb.io/cleanup';
