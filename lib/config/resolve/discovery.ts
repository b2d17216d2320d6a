/** Where the key-value store is, as sections say it in ours and in M3's ways. */
import type {
  DiscoveryConfigSection,
  DiscoverySection,
  ServiceSection,
  StoreSection,
  TlsSection,
} from '../schema/sections.ts';
import type { DiscoveryConfig, TlsConfig } from './types.ts';
import type { SectionReader } from './reader.ts';

export const singleNode: DiscoveryConfig = {
  type: 'tsdb_single_node',
  env: 'default_env',
  zone: 'embedded',
};

/** The first that is given; naming the store at two places is a mistake when they differ. */
export function resolveDiscovery(
  places: readonly (readonly [path: readonly string[], DiscoveryConfig | null])[],
  fallback: DiscoveryConfig,
  reader: SectionReader,
): DiscoveryConfig {
  let chosen: DiscoveryConfig | null = null;
  for (const [path, discovery] of places) {
    if (discovery === null) continue;
    if (chosen !== null && JSON.stringify(chosen) !== JSON.stringify(discovery)) {
      reader.add(path, 'contradicts the discovery that is given at another place');
    }
    chosen ??= discovery;
  }
  return chosen ?? fallback;
}

export function placesOf(
  path: readonly string[],
  section: DiscoveryConfigSection | undefined,
): (readonly [readonly string[], DiscoveryConfig | null])[] {
  return [
    [[...path, 'discovery'], ofDiscovery(section?.discovery)],
    [[...path, 'service'], section === undefined ? null : ofStore(section)],
  ];
}

export function ofDiscovery(section: DiscoverySection | undefined): DiscoveryConfig | null {
  if (section === undefined) return null;
  if (section.config !== undefined) return ofStore(section.config);
  if (section.tsdbCluster === undefined) return singleNode;
  const { env, zone, endpoints, tls } = section.tsdbCluster;
  return { type: 'tsdb_cluster', env, zone, endpoints, tls: ofTls(tls) };
}

/** With one seed node the store is the one that the node embeds. */
function ofStore({ service, services, seedNodes }: StoreSection): DiscoveryConfig | null {
  const given = service ?? services?.[0]?.service;
  const found = ofService(given);
  if (seedNodes === undefined) return found;
  const { env, zone } = found ?? singleNode;
  return { ...singleNode, env, zone };
}

export function ofService(section: ServiceSection | undefined): DiscoveryConfig | null {
  if (section === undefined) return null;
  const [cluster] = section.etcdClusters;
  return {
    type: 'tsdb_cluster',
    env: section.env,
    zone: section.zone,
    endpoints: cluster!.endpoints,
    tls: ofTls(cluster!.tls),
  };
}

function ofTls(section: TlsSection | undefined): TlsConfig | null {
  if (section === undefined) return null;
  return {
    caPath: section.caCrtPath,
    certificatePath: section.crtPath ?? null,
    keyPath: section.keyPath ?? null,
  };
}
