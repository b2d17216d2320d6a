/** How nodes and coordinators find etcd: configuration lines, and the mount of its TLS secret. */
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { etcdEndpoints } from './etcd.ts';
import { Names, placementZone } from '../resource/names.ts';

const tlsFolder = '/etc/tsdb-etcd-tls';
const tlsItems = ['ca.crt', 'tls.crt', 'tls.key'].map((key) => ({ key, path: key }));

export function discoveryYaml(cluster: TsdbCluster): string[] {
  const names = new Names(cluster);
  return [
    'discovery:',
    '  type: tsdb_cluster',
    '  tsdbCluster:',
    `    env: ${JSON.stringify(names.environment)}`,
    `    zone: ${placementZone}`,
    '    endpoints:',
    ...etcdEndpoints(cluster).map((endpoint) => `      - ${JSON.stringify(endpoint)}`),
    ...(cluster.spec.etcd?.external?.tlsSecret === undefined
      ? []
      : [
          '    tls:',
          `      caCrtPath: ${tlsFolder}/ca.crt`,
          `      crtPath: ${tlsFolder}/tls.crt`,
          `      keyPath: ${tlsFolder}/tls.key`,
        ]),
  ];
}

export interface Mount {
  readonly volumes: readonly object[];
  readonly mounts: readonly object[];
}

/** Empty without a TLS secret. */
export function etcdTlsMount(cluster: TsdbCluster): Mount {
  const secretName = cluster.spec.etcd?.external?.tlsSecret;
  if (secretName === undefined) return { volumes: [], mounts: [] };
  return {
    // Not what else is in it: whoever names a Secret here need not be one who may read it.
    volumes: [{ name: 'etcd-tls', secret: { secretName, items: tlsItems } }],
    mounts: [{ name: 'etcd-tls', mountPath: tlsFolder, readOnly: true }],
  };
}
