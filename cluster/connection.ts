/** From a configuration's `discovery` to the key-value store that it names. */
import type { DiscoveryConfig } from '#lib/config.ts';
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import type { ClusterName } from './keys.ts';
import type { Kv } from './kv.ts';
import { openEtcdKv } from './kv_etcd.ts';

export function clusterNameOf(discovery: DiscoveryConfig): ClusterName {
  return { environment: discovery.env, zone: discovery.zone };
}

/**
 * @param embeddedEndpoint of the store in this process; null when there is none
 * @throws {Error} of the system when a TLS file cannot be read
 */
export async function openClusterKv(
  discovery: DiscoveryConfig,
  embeddedEndpoint: string | null,
  env: Env,
  log: Log,
): Promise<Kv> {
  if (discovery.type === 'tsdb_single_node') {
    if (embeddedEndpoint === null) {
      throw new Error('discovery.type tsdb_single_node needs the embedded key-value store');
    }
    return openEtcdKv({ endpoints: [embeddedEndpoint], env, log });
  }
  const { endpoints, tls } = discovery;
  if (tls === null || tls.caPath === null) return openEtcdKv({ endpoints, env, log });
  const pair =
    tls.certificatePath === null || tls.keyPath === null
      ? {}
      : {
          certificate: await env.disk.readFile(tls.certificatePath),
          privateKey: await env.disk.readFile(tls.keyPath),
        };
  const rootCertificate = await env.disk.readFile(tls.caPath);
  return openEtcdKv({ endpoints, tls: { rootCertificate, ...pair }, env, log });
}
