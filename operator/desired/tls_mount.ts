/** Certificates of a Secret in a pod. */
import { tlsKeys } from '../observe/tls_secrets.ts';

export const tlsFolder = '/etc/tsdb-etcd-tls';

export interface Mount {
  readonly volumes: readonly object[];
  readonly mounts: readonly object[];
}

/** @param secretName undefined for an empty mount */
export function tlsMount(secretName: string | undefined): Mount {
  if (secretName === undefined) return { volumes: [], mounts: [] };
  // Not what else is in it: whoever names a Secret here need not be one who may read it.
  const items = tlsKeys.map((key) => ({ key, path: key }));
  return {
    volumes: [{ name: 'etcd-tls', secret: { secretName, items } }],
    mounts: [{ name: 'etcd-tls', mountPath: tlsFolder, readOnly: true }],
  };
}
