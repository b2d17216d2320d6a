/**
 * Whether the machines that reach a volume are there. A pod that cannot be placed says why, but not of
 * which machine: one that is full, cordoned or busy comes back, and so does its volume.
 */
import type { Clock } from '#lib/env/env.ts';
import { TsdbError } from '#lib/errors.ts';
import { type KubeClient, KubeError } from '../kube/kube_api.ts';
import { label } from '../resource/keys.ts';
import { type KubeObject, type Pod, resource } from '../resource/kube_objects.ts';

/**
 * There: a machine that reaches it is there, or somebody works at it. Away: none is. Unknown: the
 * operator may not look at machines, and the scheduler's words say too little.
 */
export type Reach =
  | { readonly state: 'there' | 'unknown' }
  | {
      readonly state: 'away';
      /** When the last of them went; null when nobody has written that down. */
      readonly sinceMillis: number | null;
    };

interface Term {
  readonly matchExpressions?: readonly Expression[];
  readonly matchFields?: readonly Expression[];
}

interface Expression {
  readonly key: string;
  readonly operator: string;
  readonly values?: readonly string[];
}

/** How old an answer of `Machines` may be. */
const rememberedMillis = 10_000;

/**
 * Volumes and machines as they were a moment ago: in an outage pods of many clusters, at each pass,
 * ask for the same ones.
 */
export class Machines {
  readonly #api: Pick<KubeClient, 'get' | 'list'>;
  readonly #clock: Pick<Clock, 'monotonicMillis'>;
  readonly #answers = new Map<string, { readonly atMillis: number; readonly answer: unknown }>();

  constructor(api: Pick<KubeClient, 'get' | 'list'>, clock: Pick<Clock, 'monotonicMillis'>) {
    this.#api = api;
    this.#clock = clock;
  }

  volume(name: string, signal: AbortSignal): Promise<KubeObject | null> {
    return this.#remembered(`volume ${name}`, () =>
      this.#api.get(resource.volume, null, name, signal),
    );
  }

  /** @returns without what nobody asks for: images make a machine large */
  select(selector: string, signal: AbortSignal): Promise<readonly Machine[]> {
    return this.#remembered(`machines ${selector}`, async () => {
      const { items } = await this.#api.list(resource.machine, null, selector, signal);
      return items.map(machineOf);
    });
  }

  async #remembered<T>(key: string, ask: () => Promise<T>): Promise<T> {
    const atMillis = this.#clock.monotonicMillis();
    for (const [other, { atMillis: then }] of this.#answers) {
      if (atMillis - then >= rememberedMillis) this.#answers.delete(other);
    }
    const known = this.#answers.get(key);
    if (known !== undefined) return known.answer as T;
    const answer = await ask();
    this.#answers.set(key, { atMillis, answer });
    return answer;
  }
}

interface Machine {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly isCordoned: boolean;
  readonly isReady: boolean;
  /** Unix; 0 when nobody says it. */
  readonly readySinceMillis: number;
}

function machineOf(object: KubeObject): Machine {
  const { unschedulable = false } = object['spec'] as { readonly unschedulable?: boolean };
  const { conditions = [] } = (object['status'] ?? {}) as {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime?: string;
    }[];
  };
  const ready = conditions.find(({ type }) => type === 'Ready');
  return {
    name: object.metadata.name,
    labels: object.metadata.labels ?? {},
    isCordoned: unschedulable,
    isReady: ready?.status === 'True',
    readySinceMillis: Date.parse(ready?.lastTransitionTime ?? '') || 0,
  };
}

/** @returns by pod, of those that cannot be placed and have a volume already */
export async function volumeReaches(
  pods: readonly Pod[],
  volumeClaims: readonly KubeObject[],
  machines: Pick<Machines, 'volume' | 'select'>,
  signal: AbortSignal,
): Promise<ReadonlyMap<string, Reach>> {
  const reaches = new Map<string, Reach>();
  for (const pod of pods) {
    const claim = volumeClaims.find(
      ({ metadata }) => metadata.name === `data-${pod.metadata.name}`,
    );
    const message = unplacedMessage(pod);
    if (claim === undefined || message === null) continue;
    const { volumeName = '' } = claim['spec'] as { readonly volumeName?: string };
    const reach = volumeName === '' ? null : await reachOf(volumeName, machines, signal);
    reaches.set(pod.metadata.name, reach ?? reachByWords(message));
  }
  return reaches;
}

/** Null when it cannot be seen: the operator is installed for some namespaces, or the server fails. */
async function reachOf(
  name: string,
  machines: Pick<Machines, 'volume' | 'select'>,
  signal: AbortSignal,
): Promise<Reach | null> {
  try {
    const volume = await machines.volume(name, signal);
    if (volume === null) return null;
    const { nodeAffinity } = volume['spec'] as {
      readonly nodeAffinity?: {
        readonly required?: { readonly nodeSelectorTerms: readonly Term[] };
      };
    };
    const terms = nodeAffinity?.required?.nodeSelectorTerms;
    // Every machine reaches it.
    if (terms === undefined) return { state: 'there' };
    const found = new Map<string, Machine>();
    for (const term of terms) {
      // There may be thousands of them, of which few are asked for.
      const selected = await machines.select(selectorOf(term), signal);
      for (const one of selected) if (isMatch(one, term)) found.set(one.name, one);
    }
    return reachFrom([...found.values()]);
  } catch (error) {
    if (signal.aborted || !(error instanceof KubeError || error instanceof TsdbError)) throw error;
    return null;
  }
}

/** Of the labels of its machines, as far as selectors go. */
function selectorOf({ matchExpressions = [] }: Term): string {
  return matchExpressions
    .flatMap(({ key, operator, values = [] }) => {
      if (operator === 'Exists') return [key];
      if (operator === 'DoesNotExist') return [`!${key}`];
      return operator === 'In' || operator === 'NotIn'
        ? [`${key} ${operator.toLowerCase()} (${values.join(',')})`]
        : [];
    })
    .join(',');
}

function unplacedMessage({ metadata, status }: Pod): string | null {
  const component = metadata.labels?.[label.component];
  if (component !== 'node' && component !== 'etcd') return null;
  if (metadata.deletionTimestamp !== undefined || status?.phase !== 'Pending') return null;
  const scheduled = status.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' ? (scheduled.message ?? '') : null;
}

/** @param machines that reach the volume */
function reachFrom(machines: readonly Machine[]): Reach {
  if (machines.some(({ isCordoned, isReady }) => isCordoned || isReady)) return { state: 'there' };
  const sinceMillis = machines.map((one) => one.readySinceMillis);
  return { state: 'away', sinceMillis: machines.length === 0 ? null : Math.max(...sinceMillis) };
}

/** An empty term is none. */
function isMatch({ name, labels }: Machine, term: Term): boolean {
  const { matchExpressions = [], matchFields = [] } = term;
  const fields = new Map([['metadata.name', name]]);
  const labelled = new Map(Object.entries(labels));
  return (
    matchExpressions.length + matchFields.length > 0 &&
    matchExpressions.every((one) => isFulfilled(one, labelled.get(one.key))) &&
    matchFields.every((one) => isFulfilled(one, fields.get(one.key)))
  );
}

function isFulfilled({ operator, values = [] }: Expression, value: string | undefined): boolean {
  switch (operator) {
    case 'In':
      return value !== undefined && values.includes(value);
    case 'NotIn':
      return value === undefined || !values.includes(value);
    case 'Exists':
      return value !== undefined;
    case 'DoesNotExist':
      return value === undefined;
    case 'Gt':
      return Number(value) > Number(values[0]);
    case 'Lt':
      return Number(value) < Number(values[0]);
    default:
      // Of a Kubernetes to come: who perhaps reaches it is waited for.
      return true;
  }
}

/**
 * By what the scheduler says of all machines together: the volume is on one that is away only when
 * every other cause is that, too.
 */
function reachByWords(message: string): Reach {
  const [causes = ''] = message.replace(/^[^:]*: /, '').split(/\. |\.$/);
  const all = causes.split(', ');
  const isElsewhere = (cause: string): boolean => /volume.*affinity/i.test(cause);
  const isAway = (cause: string): boolean => /untolerated taint/.test(cause);
  // Machines of other groups: none of them has it.
  const isOfOthers = (cause: string): boolean => /Pod's node affinity/.test(cause);
  if (!all.some(isElsewhere)) return { state: 'unknown' };
  return all.every((cause) => isElsewhere(cause) || isAway(cause) || isOfOthers(cause))
    ? { state: 'away', sinceMillis: null }
    : { state: 'unknown' };
}

/** Since when this process has seen pods whose volume is out of reach, where nobody else says it. */
export class AwaySince {
  readonly #sinceMillis = new Map<string, number>();

  /** @returns by pod; those that are not away any more are forgotten */
  note(reaches: ReadonlyMap<string, Reach>, nowMillis: number): ReadonlyMap<string, number> {
    for (const name of this.#sinceMillis.keys()) {
      if (reaches.get(name)?.state !== 'away') this.#sinceMillis.delete(name);
    }
    for (const [name, reach] of reaches) {
      if (reach.state !== 'away') continue;
      const known = reach.sinceMillis ?? this.#sinceMillis.get(name) ?? nowMillis;
      this.#sinceMillis.set(name, known);
    }
    return new Map(this.#sinceMillis);
  }
}
