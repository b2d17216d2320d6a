/** From a configuration's `discovery` to the key-value store that it names. */
import type { DiscoveryConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import type { ClientCertificates } from '#lib/env/grpc_certificates.ts';
import type { Log } from '#lib/log.ts';
import type { ClusterName } from './keys.ts';
import type { Kv } from './kv.ts';
import { type LocalStore, openLocalKv } from './local.ts';

export function clusterNameOf(discovery: DiscoveryConfig): ClusterName {
  return { environment: discovery.env, zone: discovery.zone };
}

/**
 * @param embedded the store in this process, or where one of this machine listens; null when there
 * is none
 * @throws {Error} of the system when a TLS file cannot be read, or of TLS when it cannot be used
 */
export async function openClusterKv(
  discovery: DiscoveryConfig,
  embedded: LocalStore | string | null,
  env: Env,
  log: Log,
): Promise<Kv> {
  if (discovery.type === 'tsdb_single_node') {
    if (embedded === null) {
      throw new Error('discovery.type tsdb_single_node needs the embedded key-value store');
    }
    if (typeof embedded !== 'string') return openLocalKv(embedded, env.clock);
  }
  // The package is large, and most single nodes do without.
  const { openEtcdKv } = await import('./etcd.ts');
  if (discovery.type === 'tsdb_single_node') {
    return openEtcdKv({ endpoints: [embedded as string], env, log });
  }
  const { endpoints, tls } = discovery;
  if (tls === null || tls.caPath === null) return openEtcdKv({ endpoints, env, log });
  const { caPath, certificatePath, keyPath } = tls;
  const readTls = async (): Promise<ClientCertificates> => ({
    rootCertificates: await env.disk.readFile(caPath),
    ...(certificatePath === null || keyPath === null
      ? {}
      : {
          certificate: await env.disk.readFile(certificatePath),
          privateKey: await env.disk.readFile(keyPath),
        }),
  });
  return openEtcdKv({ endpoints, tls: await readTls(), readTls, env, log });
}
