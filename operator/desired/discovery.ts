/** How nodes and coordinators find etcd: configuration lines, and the mount of its TLS secret. */
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';
import { etcdEndpoints } from './etcd.ts';
import { type Mount, tlsFolder, tlsMount } from './tls_mount.ts';
import { Names, placementZone } from '../resource/names.ts';

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
    ...(clientSecretOf(cluster) === undefined
      ? []
      : [
          '    tls:',
          `      caCrtPath: ${tlsFolder}/ca.crt`,
          `      crtPath: ${tlsFolder}/tls.crt`,
          `      keyPath: ${tlsFolder}/tls.key`,
        ]),
  ];
}

function clientSecretOf({ spec }: TsdbCluster): string | undefined {
  return spec.etcd?.external?.tlsSecret ?? spec.etcd?.tls?.clientSecret;
}

/** Of nodes and coordinators; empty when etcd does not speak TLS. */
export function etcdTlsMount(cluster: TsdbCluster): Mount {
  return tlsMount(clientSecretOf(cluster));
}
