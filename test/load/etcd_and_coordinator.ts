/** What a cluster on this machine has beside its nodes. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Program, root } from '../integration/process.ts';

/** Its data are in the folder `etcd` of the one that is given. */
export function etcdProgram(
  folder: string,
  binary: string,
  [client, peer]: readonly [client: number, peer: number],
): Program {
  const [clientUrl, peerUrl] = [`http://127.0.0.1:${client}`, `http://127.0.0.1:${peer}`];
  return new Program('etcd', folder, binary, [
    ...['--data-dir', join(folder, 'etcd')],
    ...['--listen-client-urls', clientUrl, '--advertise-client-urls', clientUrl],
    ...['--listen-peer-urls', peerUrl, '--initial-advertise-peer-urls', peerUrl],
    ...['--initial-cluster', `default=${peerUrl}`],
  ]);
}

export const discoveryOf = (etcdEndpoint: string): string =>
  `{type: tsdb_cluster, tsdbCluster: {env: test, zone: embedded, endpoints: ["${etcdEndpoint}"]}}`;

export interface CoordinatorOptions {
  readonly name: string;
  readonly folder: string;
  readonly etcdEndpoint: string;
  readonly port: number;
  readonly metricsPort: number;
  /** Folder of the sources; default: these. */
  readonly checkout?: string;
}

/** It reads and writes at majority. */
export function coordinatorProgram(options: CoordinatorOptions): Program {
  const { name, folder, etcdEndpoint, port, metricsPort, checkout = root } = options;
  const file = join(folder, `${name}.yml`);
  writeFileSync(
    file,
    `coordinator:
  listenAddress: 127.0.0.1:${port}
  metrics: {prometheus: {listenAddress: "127.0.0.1:${metricsPort}"}}
  discovery: ${discoveryOf(etcdEndpoint)}
  clusters: [{client: {writeConsistencyLevel: majority, readConsistencyLevel: majority}}]
`,
  );
  const args = ['coordinator/main.ts', '-f', file];
  return new Program(name, folder, process.execPath, args, {}, checkout);
}
