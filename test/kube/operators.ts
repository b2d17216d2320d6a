/** The operator as a scenario needs it: with failpoints, or led through proxies. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { namespace, operatorHome, operatorReady } from './install.ts';
import { home, type Kube, waitFor } from './kube.ts';
import { bridgeAddress, FaultProxy } from './proxy.ts';

/** Of the coordinator's Service; the operator asks for it by name. */
const coordinatorPort = 7201;
/** A Service that is made again has another address. */
const addressMillisMax = 3_000;

export interface Way {
  /** As of TSDB_OPERATOR_FAILPOINTS. */
  readonly failpoints?: string;
  readonly api?: FaultProxy;
  /** Stands for the coordinators of these clusters. */
  readonly coordinatorsOf?: readonly string[];
  readonly replicas?: number;
}

/** In front of the API server, with its certificate: that names the bridge's address too. */
export function openApiProxy(): Promise<FaultProxy> {
  const pki = (file: string): Buffer => readFileSync(join(home, 'pki', file));
  const config = readFileSync(join(home, 'admin.conf'), 'utf8');
  const server = /server: "?(https:[^",]+)/.exec(config)![1]!;
  return FaultProxy.open({
    port: 0,
    upstream: async () => new URL(server),
    tls: { cert: pki('apiserver.crt'), key: pki('apiserver.key'), ca: pki('ca.crt') },
  });
}

/** In front of the coordinators of a cluster, which need not be there yet. */
export function openCoordinatorProxy(kube: Kube, cluster: string): Promise<FaultProxy> {
  let known = { address: '', atMillis: Number.NEGATIVE_INFINITY };
  return FaultProxy.open({
    port: coordinatorPort,
    async upstream() {
      if (Date.now() - known.atMillis > addressMillisMax) {
        const service = await kube.get('service', `${cluster}-coordinator`, namespace);
        if (service === null) throw new Error('no coordinator');
        known = { address: service.spec.clusterIP, atMillis: Date.now() };
      }
      return new URL(`http://${known.address}:${coordinatorPort}`);
    },
  });
}

/** Rolls the operator so that it goes this way; no way is the one that it was installed with. */
export async function operatorGoes(kube: Kube, way: Way): Promise<void> {
  const inNamespace = (await operatorHome(kube))!;
  const { spec } = await kube.get('deployment', 'tsdb-operator', inNamespace);
  const [container] = spec.template.spec.containers;
  const added: Record<string, string | undefined> = {
    TSDB_OPERATOR_FAILPOINTS: way.failpoints,
    KUBERNETES_SERVICE_HOST: way.api === undefined ? undefined : bridgeAddress,
    KUBERNETES_SERVICE_PORT: way.api === undefined ? undefined : String(way.api.port),
  };
  const env = [
    ...container.env.filter(({ name }: { name: string }) => !Object.hasOwn(added, name)),
    ...Object.entries(added).flatMap(([name, value]) =>
      value === undefined ? [] : [{ name, value }],
    ),
  ];
  const hosts = way.coordinatorsOf ?? [];
  const hostAliases =
    hosts.length === 0
      ? null
      : [
          {
            ip: bridgeAddress,
            hostnames: hosts.map((name) => `${name}-coordinator.${namespace}.svc`),
          },
        ];
  const containers = [{ ...container, env }];
  const patch = {
    spec: { replicas: way.replicas ?? 2, template: { spec: { containers, hostAliases } } },
  };
  await kube.ok([
    ...['patch', 'deployment', 'tsdb-operator', '-n', inNamespace, '--type=merge'],
    ...['-p', JSON.stringify(patch)],
  ]);
  await operatorReady(kube, inNamespace);
}

/** Which process holds the lease; empty when none does. */
export async function leadingProcess(kube: Kube): Promise<string> {
  const lease = await kube.get('lease', 'tsdb-operator', (await operatorHome(kube))!);
  return String(lease?.spec?.holderIdentity ?? '');
}

/** Name of its pod. */
export async function leadingPod(kube: Kube): Promise<string> {
  const identity = await leadingProcess(kube);
  return identity.slice(0, Math.max(0, identity.lastIndexOf('_')));
}

/** Until another than this pod leads. */
export async function anotherLeads(kube: Kube, pod: string, millisMax: number): Promise<string> {
  let leader = '';
  await waitFor(`another leads than ${pod}`, millisMax, async () => {
    leader = await leadingPod(kube);
    return leader !== '' && leader !== pod ? null : `the lease is held by '${leader}'`;
  });
  return leader;
}
