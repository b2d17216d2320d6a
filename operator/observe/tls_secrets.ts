/**
 * The Secrets with certificates for etcd that a resource names: whether they are there, and what the
 * operator itself speaks to a managed etcd with.
 */
import type { EtcdCertificates } from '../etcd/etcd_admin.ts';
import { type KubeClient, KubeError } from '../kube/kube_api.ts';
import { resource } from '../resource/kube_objects.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

/** As Secrets of the type kubernetes.io/tls have them, with their authority. */
export const tlsKeys = ['ca.crt', 'tls.crt', 'tls.key'] as const;

/** Of a Secret: it becomes a part of the path of a request. */
const objectName = /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/;

export interface TlsSecrets {
  /** Null when etcd does not speak TLS, or the Secret is not as it should be. */
  readonly certificates: EtcdCertificates | null;
  /** What is not there, each by its name: pods that need it wait for it. */
  readonly missing: readonly string[];
  /** What the operator may not read though it has to. */
  readonly forbidden: readonly string[];
}

export const noTlsSecrets: TlsSecrets = { certificates: null, missing: [], forbidden: [] };

export async function readTlsSecrets(
  cluster: TsdbCluster,
  api: Pick<KubeClient, 'get'>,
  signal: AbortSignal,
): Promise<TlsSecrets> {
  const { tls, external } = cluster.spec.etcd ?? {};
  const { namespace } = cluster.metadata;
  const named = [
    ['etcd.tls.clientSecret', tls?.clientSecret],
    ['etcd.tls.serverSecret', tls?.serverSecret],
    ['etcd.external.tlsSecret', external?.tlsSecret],
  ] as const;
  const missing: string[] = [];
  const forbidden: string[] = [];
  let certificates: EtcdCertificates | null = null;
  for (const [field, name] of named) {
    if (name === undefined) continue;
    const what = `Secret ${name} (${field})`;
    if (!objectName.test(name)) {
      missing.push(`${what} cannot be: that is no name of an object`);
      continue;
    }
    try {
      const secret = await api.get(resource.secret, namespace!, name, signal);
      const data = (secret?.['data'] ?? {}) as Readonly<Record<string, string>>;
      const absent = tlsKeys.filter((key) => (data[key] ?? '') === '');
      if (secret === null) missing.push(`${what} is not there`);
      else if (absent.length > 0) missing.push(`${what} has no ${absent.join(', ')}`);
      else if (field === 'etcd.tls.clientSecret') {
        const [ca, cert, key] = tlsKeys.map((name) =>
          Buffer.from(data[name]!, 'base64').toString(),
        );
        certificates = { ca: ca!, cert: cert!, key: key! };
      }
    } catch (error) {
      if (!(error instanceof KubeError && error.status === 403)) throw error;
      // An external etcd is not spoken to; who mounts it sees whether it is there.
      if (field !== 'etcd.external.tlsSecret') forbidden.push(what);
    }
  }
  return { certificates, missing, forbidden };
}
