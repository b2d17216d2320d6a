/**
 * What a `podTemplate` may lay over a pod of ours. Two things bound it: what the operator relies on
 * (labels, its container's ports, volumes and probes) is never changed, and whoever may write a
 * TSDBCluster must not gain by it what is not theirs: the rights of a service account, Secrets and
 * volumes of others, the machine. Rules list what is allowed: a field that Kubernetes will have one
 * day is asked for with the same right as the machine.
 */
import { posix } from 'node:path';
import { isRecord } from '../resource/merge.ts';

/** What the operator's administrator may let all podTemplates do, each by its name. */
export const podRights = ['serviceAccounts', 'secrets', 'volumes', 'metadata', 'machine'] as const;
export type PodRight = (typeof podRights)[number];

/** @throws {Error} for a word that is no right: a slip must not go unseen */
export function podRightsOf(text: string): ReadonlySet<PodRight> {
  const words = text.split(',').flatMap((word) => word.trim() || []);
  const known: readonly string[] = podRights;
  const unknown = words.find((word) => !known.includes(word));
  if (unknown !== undefined) {
    throw new Error(`cannot allow podTemplates ${unknown}: there are ${podRights.join(', ')}`);
  }
  return new Set(words as PodRight[]);
}

type Json = unknown;

type Rule =
  | { readonly kind: 'free' }
  | { readonly kind: 'right'; readonly right: PodRight }
  /** Other values need the right. */
  | { readonly kind: 'only'; readonly values: readonly Json[]; readonly right: PodRight }
  /** A text that starts so needs the right. */
  | { readonly kind: 'unless'; readonly starts: string; readonly right: PodRight }
  | { readonly kind: 'never'; readonly reason: string }
  | { readonly kind: 'count' }
  /** Null as well, as tools write what they have no value for. */
  | { readonly kind: 'orNull'; readonly rule: Rule }
  /** Neither in, nor over, a folder of ours. */
  | { readonly kind: 'folder' }
  /** Keys with a reserved prefix are never set; others than those with a free one need the right. */
  | {
      readonly kind: 'keys';
      readonly reserved: readonly string[];
      readonly free: readonly string[];
      readonly right: PodRight;
    }
  | {
      readonly kind: 'object';
      readonly fields: Readonly<Record<string, Rule>>;
      readonly others: Rule;
    }
  | { readonly kind: 'list'; readonly item: Rule }
  /** Lists that are merged by name: each item has one, and `ruleOf` tells what that may say. */
  | { readonly kind: 'named'; readonly ruleOf: (name: string) => Rule };

const free: Rule = { kind: 'free' };
const count: Rule = { kind: 'count' };
const needs = (right: PodRight): Rule => ({ kind: 'right', right });
const only = (right: PodRight, ...values: readonly Json[]): Rule => ({
  kind: 'only',
  values,
  right,
});
const ours: Rule = { kind: 'never', reason: 'is set by the operator' };
const list = (item: Rule): Rule => ({ kind: 'list', item });
const object = (fields: Record<string, Rule>, others: Rule = needs('machine')): Rule => ({
  kind: 'object',
  fields,
  others,
});
const orNull = (rule: Rule): Rule => ({ kind: 'orNull', rule });
const named = (ruleOf: (name: string) => Rule): Rule => ({ kind: 'named', ruleOf });
const allFree = (...names: readonly string[]): Record<string, Rule> =>
  Object.fromEntries(names.map((name) => [name, free]));

const profile = object({ type: only('machine', 'RuntimeDefault') });
const identity = {
  ...allFree('runAsUser', 'runAsGroup'),
  runAsNonRoot: only('machine', true),
  seccompProfile: profile,
  appArmorProfile: profile,
};
const podSecurityContext = object({
  ...identity,
  ...allFree('fsGroup', 'fsGroupChangePolicy', 'supplementalGroups', 'supplementalGroupsPolicy'),
});
const containerSecurityContext = object({
  ...identity,
  ...allFree('readOnlyRootFilesystem'),
  privileged: only('machine', false),
  allowPrivilegeEscalation: only('machine', false),
  capabilities: object({ drop: only('machine', ['ALL']) }),
});

const timings = {
  periodSeconds: count,
  timeoutSeconds: count,
  failureThreshold: count,
  initialDelaySeconds: count,
};
const handlers = {
  ...allFree('exec', 'grpc', 'sleep'),
  httpGet: object(allFree('path', 'port', 'scheme', 'httpHeaders')),
  tcpSocket: object(allFree('port')),
};
const probe = object({
  ...timings,
  ...handlers,
  ...allFree('successThreshold', 'terminationGracePeriodSeconds'),
});
const variable = object({
  ...allFree('name', 'value'),
  valueFrom: object({
    ...allFree('fieldRef', 'resourceFieldRef', 'configMapKeyRef', 'fileKeyRef'),
    secretKeyRef: needs('secrets'),
  }),
});
const resources = object(allFree('requests', 'limits'));
/** What also a container of ours may be given. */
const common = {
  ...allFree('name', 'image', 'imagePullPolicy', 'resizePolicy'),
  ...allFree('terminationMessagePath', 'terminationMessagePolicy'),
  resources,
  securityContext: containerSecurityContext,
};
const otherContainer = object({
  ...common,
  ...allFree('command', 'args', 'workingDir', 'stdin', 'stdinOnce', 'tty'),
  ...allFree('restartPolicy', 'restartPolicyRules', 'volumeDevices'),
  // A Secret that the resource names for etcd is for our own container alone.
  volumeMounts: named((name) => (name === 'etcd-tls' ? ours : free)),
  env: named(() => variable),
  envFrom: list(object({ ...allFree('prefix', 'configMapRef'), secretRef: needs('secrets') })),
  ports: list(object(allFree('name', 'containerPort', 'protocol'))),
  lifecycle: object({
    ...allFree('stopSignal'),
    postStart: object(handlers),
    preStop: object(handlers),
  }),
  livenessProbe: probe,
  readinessProbe: probe,
  startupProbe: probe,
});

/** Settings of etcd that change how fast it is, and not who it is. */
const etcdTunings: readonly string[] = [
  'ETCD_HEARTBEAT_INTERVAL',
  'ETCD_ELECTION_TIMEOUT',
  'ETCD_SNAPSHOT_COUNT',
  'ETCD_MAX_REQUEST_BYTES',
  'ETCD_LOG_LEVEL',
];
const isOurVariable = (name: string): boolean =>
  name === 'POD_NAME' ||
  name.startsWith('TSDB_') ||
  (name.startsWith('ETCD_') && !etcdTunings.includes(name));

/** Names of volumes that the operator mounts, and where. */
const ourVolumes: readonly string[] = ['data', 'config', 'etcd-tls'];
const ourFolders: readonly string[] = [
  '/var/lib/tsdb',
  '/var/lib/etcd',
  '/etc/tsdb',
  '/etc/tsdb-etcd-tls',
];

/** Volumes of others may lie anywhere but over ours. */
const mount = (name: string): Rule =>
  ourVolumes.includes(name)
    ? ours
    : object({
        ...allFree('name', 'readOnly', 'recursiveReadOnly', 'subPath', 'subPathExpr'),
        ...allFree('mountPropagation'),
        mountPath: { kind: 'folder' },
      });

const ownContainer = object(
  {
    ...common,
    env: named((name) => (isOurVariable(name) ? ours : variable)),
    volumeMounts: named(mount),
    livenessProbe: object(timings, ours),
    startupProbe: object(timings, ours),
  },
  ours,
);

const projection = object({
  ...allFree('configMap', 'downwardAPI', 'clusterTrustBundle'),
  secret: needs('secrets'),
  serviceAccountToken: needs('serviceAccounts'),
  podCertificate: needs('serviceAccounts'),
});
const volume = object(
  {
    ...allFree('name', 'emptyDir', 'configMap', 'downwardAPI', 'image'),
    projected: object({ ...allFree('defaultMode'), sources: list(projection) }),
    secret: needs('secrets'),
    hostPath: needs('machine'),
  },
  needs('volumes'),
);

const labelsReserved: readonly string[] = [
  'tsdb.io/',
  'app.kubernetes.io/managed-by',
  'controller-revision-hash',
  'pod-template-hash',
  'statefulset.kubernetes.io/',
  'apps.kubernetes.io/',
];

/**
 * Who scrapes, moves and makes anew reads these. Others, and all labels, are identities somewhere:
 * roles in a cloud, networks, the Services that select a pod.
 */
const annotationsFree: readonly string[] = [
  'prometheus.io/',
  'cluster-autoscaler.kubernetes.io/safe-to-evict',
  'karpenter.sh/do-not-disrupt',
  'kubectl.kubernetes.io/restartedAt',
  'checksum/',
];

/** Free; its shape is known, since the machines of an isolation group are laid over it. */
const affinity = orNull(
  object(
    {
      nodeAffinity: orNull(
        object(
          {
            requiredDuringSchedulingIgnoredDuringExecution: orNull(
              object(
                { nodeSelectorTerms: list(object({ matchExpressions: orNull(list(free)) }, free)) },
                free,
              ),
            ),
          },
          free,
        ),
      ),
    },
    free,
  ),
);

const templateRule = (own: string): Rule =>
  object({
    metadata: object(
      {
        labels: { kind: 'keys', reserved: labelsReserved, free: [], right: 'metadata' },
        annotations: {
          kind: 'keys',
          reserved: ['tsdb.io/', 'container.apparmor.security.beta.kubernetes.io/'],
          free: annotationsFree,
          right: 'metadata',
        },
      },
      ours,
    ),
    spec: object({
      ...allFree('nodeSelector'),
      affinity,
      topologySpreadConstraints: orNull(list(free)),
      tolerations: orNull(list(free)),
      ...allFree('preemptionPolicy', 'schedulerName', 'runtimeClassName'),
      // Those of Kubernetes itself drive out everything else.
      priorityClassName: { kind: 'unless', starts: 'system-', right: 'machine' },
      hostAliases: orNull(list(free)),
      readinessGates: orNull(list(free)),
      ...allFree('dnsConfig', 'dnsPolicy', 'enableServiceLinks', 'overhead', 'os'),
      ...allFree('shareProcessNamespace', 'hostUsers'),
      terminationGracePeriodSeconds: count,
      resources,
      imagePullSecrets: named(() => object(allFree('name'))),
      containers: named((name) => (name === own ? ownContainer : otherContainer)),
      initContainers: named(() => otherContainer),
      volumes: named((name) => (ourVolumes.includes(name) ? ours : volume)),
      securityContext: podSecurityContext,
      serviceAccountName: needs('serviceAccounts'),
      serviceAccount: needs('serviceAccounts'),
      automountServiceAccountToken: only('serviceAccounts', false),
      hostNetwork: only('machine', false),
      hostPID: only('machine', false),
      hostIPC: only('machine', false),
      hostname: ours,
      subdomain: ours,
      setHostnameAsFQDN: ours,
      restartPolicy: ours,
      activeDeadlineSeconds: ours,
    }),
  });

/**
 * @param podTemplate as it stands in the resource
 * @param own name of the container that is ours
 * @param allowed what the operator's administrator lets all of them do
 * @returns what is wrong, each with the path of the field; empty when all may be as it is
 */
export function podTemplateProblems(
  podTemplate: Json,
  own: string,
  allowed: ReadonlySet<PodRight>,
): string[] {
  return [...problemsOf(podTemplate, templateRule(own), '', allowed)];
}

function* problemsOf(
  value: Json,
  rule: Rule,
  path: string,
  allowed: ReadonlySet<PodRight>,
): Generator<string> {
  const lacks = (right: PodRight, what: string = path): string[] =>
    allowed.has(right)
      ? []
      : [`${what} needs the right ${right}, which the operator does not give`];
  switch (rule.kind) {
    case 'free':
      return;
    case 'never':
      yield `${path} ${rule.reason}`;
      return;
    case 'right':
      yield* lacks(rule.right);
      return;
    case 'only': {
      const text = JSON.stringify(value);
      if (!rule.values.some((one) => JSON.stringify(one) === text)) yield* lacks(rule.right);
      return;
    }
    case 'unless':
      if (String(value).startsWith(rule.starts)) yield* lacks(rule.right);
      return;
    case 'orNull':
      if (value !== null) yield* problemsOf(value, rule.rule, path, allowed);
      return;
    case 'count':
      if (!Number.isSafeInteger(value) || Number(value) < 0) yield `${path} is no whole number`;
      return;
    case 'folder': {
      const folder = `${posix.resolve('/', String(value))}/`.replace('//', '/');
      const over = ourFolders.filter(
        (own) => folder.startsWith(`${own}/`) || `${own}/`.startsWith(folder),
      );
      if (over.length > 0) yield `${path}: ${String(value)} is over ${over.join(', ')}`;
      return;
    }
    case 'keys': {
      if (!isRecord(value)) {
        yield `${path} is no object`;
        return;
      }
      for (const key of Object.keys(value)) {
        const isOneOf = (starts: readonly string[]): boolean =>
          starts.some((start) => key.startsWith(start));
        if (isOneOf(rule.reserved)) yield `${path}: ${key} is the operator's`;
        else if (!isOneOf(rule.free)) yield* lacks(rule.right, `${path}: ${key}`);
      }
      return;
    }
    case 'object':
      if (!isRecord(value)) {
        yield `${path} is no object`;
        return;
      }
      for (const [key, member] of Object.entries(value)) {
        const inside = Object.hasOwn(rule.fields, key) ? rule.fields[key]! : rule.others;
        yield* problemsOf(member, inside, path === '' ? key : `${path}.${key}`, allowed);
      }
      return;
    case 'list':
      if (!Array.isArray(value)) yield `${path} is no list`;
      else {
        for (const [at, item] of value.entries()) {
          yield* problemsOf(item, rule.item, `${path}[${at}]`, allowed);
        }
      }
      return;
    case 'named':
      if (!Array.isArray(value)) {
        yield `${path} is no list`;
        return;
      }
      for (const [at, item] of value.entries()) {
        const name = isRecord(item) ? item['name'] : undefined;
        // By its name it is merged: a list with one that has none would replace ours.
        if (typeof name !== 'string' || name === '') yield `${path}[${at}] has no name`;
        else yield* problemsOf(item, rule.ruleOf(name), `${path}[${name}]`, allowed);
      }
      return;
    default:
      rule satisfies never;
  }
}
