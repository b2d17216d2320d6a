/**
 * A Kubernetes API in memory for tests: server-side apply, merge patches, compare-and-set by
 * resourceVersion, generations, finalizers and owner references; `World` plays the controllers.
 */
import {
  KubeError,
  type KubeClient,
  type KubeList,
  type KubeWatchEvent,
  type Which,
} from './kube_api.ts';
import { fieldManager } from '../resource/keys.ts';
import type { KubeObject, Metadata, Resource } from '../resource/kube_objects.ts';

type Json = any;

const isRecord = (value: Json): value is Record<string, Json> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const merged = (base: Json, over: Json): Json => {
  if (!isRecord(base) || !isRecord(over)) return over;
  const result = { ...base };
  for (const [key, value] of Object.entries(over)) {
    if (value === null) delete result[key];
    else result[key] = merged(base[key], value);
  }
  return result;
};

/** As the real server writes quantities: '1000m' is '1'. */
const canonical = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(canonical);
  if (isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, canonical(inner)]));
  }
  return typeof value === 'string' ? value.replace(/^(\d+)000m$/, '$1') : value;
};

export class FakeKube implements KubeClient {
  readonly objects: Map<string, KubeObject> = new Map();
  /** `METHOD kind/name` of every write, in order. */
  readonly writes: string[] = [];
  /** Throws to refuse a write. */
  nowMillis: () => number = () => Date.UTC(2026, 0, 1);
  beforeWrite: (write: string, body: Json) => void = (_write: string, _body: Json): void => {};
  /** Throws to lose the answer of a write that was carried out. */
  afterWrite: (write: string) => void = (_write: string): void => {};
  #versions = 0;

  #key(kind: string, namespace: string | null, name: string): string {
    return `${kind}/${namespace ?? ''}/${name}`;
  }

  ofKind(kind: string): KubeObject[] {
    return [...this.objects.values()].filter((object) => object.kind === kind);
  }

  find(kind: string, name: string): Json {
    return this.objects.get(this.#key(kind, 'default', name));
  }

  /** As the server stores it: version and generation move only when something changed. */
  store(object: Json): KubeObject {
    const { kind, metadata } = object as KubeObject;
    const key = this.#key(kind, metadata.namespace ?? null, metadata.name);
    const before = this.objects.get(key) as Json;
    const next = canonical(structuredClone(object)) as Json;
    const content = (one: Json) =>
      JSON.stringify({
        ...one,
        metadata: { ...one?.metadata, resourceVersion: '', generation: 0 },
      });
    if (before !== undefined && content(before) === content(next)) return before;
    const specChanged = JSON.stringify(before?.spec) !== JSON.stringify(next.spec);
    next.metadata = {
      ...next.metadata,
      uid: before?.metadata.uid ?? `uid-${++this.#versions}`,
      creationTimestamp:
        before?.metadata.creationTimestamp ?? new Date(this.nowMillis()).toISOString(),
      resourceVersion: String(++this.#versions),
      ...(kind === 'Service' || kind === 'ConfigMap'
        ? {}
        : { generation: (before?.metadata.generation ?? 0) + (specChanged ? 1 : 0) }),
    };
    this.objects.set(key, next);
    return next;
  }

  remove(object: KubeObject): void {
    this.objects.delete(this.#key(object.kind, object.metadata.namespace!, object.metadata.name));
  }

  #record(method: string, kind: string, name: string, body: Json): string {
    const write = `${method} ${kind}/${name}`;
    this.beforeWrite(write, body);
    this.writes.push(write);
    return write;
  }

  #require(resource: Resource, namespace: string, name: string): Json {
    const object = this.objects.get(this.#key(resource.kind, namespace, name));
    if (object === undefined) throw new KubeError(404, 'NotFound', `${resource.plural} ${name}`);
    return object;
  }

  get(resource: Resource, namespace: string | null, name: string): Promise<KubeObject | null> {
    return Promise.resolve(this.objects.get(this.#key(resource.kind, namespace, name)) ?? null);
  }

  list(resource: Resource, namespace: string | null, labelSelector: string): Promise<KubeList> {
    const wanted = labelSelector
      .split(',')
      .filter((part) => part !== '')
      .map((part) => part.split('=') as [string, string | undefined]);
    const items = this.ofKind(resource.kind).filter(
      ({ metadata }) =>
        (namespace === null || metadata.namespace === namespace) &&
        wanted.every(([label, value]) =>
          value === undefined
            ? label in (metadata.labels ?? {})
            : metadata.labels?.[label] === value,
        ),
    );
    return Promise.resolve({ items, resourceVersion: String(this.#versions) });
  }

  // eslint-disable-next-line require-yield
  async *watch(): AsyncGenerator<KubeWatchEvent> {
    await Promise.resolve();
    throw new KubeError(500, 'InternalError', 'the fake has no watches');
  }

  async apply(object: KubeObject): Promise<KubeObject> {
    const { kind, metadata } = object;
    const write = this.#record('APPLY', kind, metadata.name, object);
    const live = this.objects.get(this.#key(kind, metadata.namespace!, metadata.name));
    const stored = this.store(merged(live ?? {}, object));
    this.afterWrite(write);
    return stored;
  }

  async create(resource: Resource, object: KubeObject): Promise<KubeObject> {
    const { metadata } = object;
    const write = this.#record('POST', resource.kind, metadata.name, object);
    if (this.objects.has(this.#key(resource.kind, metadata.namespace!, metadata.name))) {
      throw new KubeError(409, 'AlreadyExists', metadata.name);
    }
    const stored = this.store(object);
    this.afterWrite(write);
    return stored;
  }

  async replace(resource: Resource, object: KubeObject): Promise<KubeObject> {
    const { name, namespace, resourceVersion } = object.metadata;
    const live = this.#require(resource, namespace!, name);
    const write = this.#record('PUT', resource.kind, name, object);
    this.#checkVersion(live.metadata, resourceVersion);
    const stored = this.store(object);
    this.afterWrite(write);
    return stored;
  }

  async mergePatch(
    resource: Resource,
    namespace: string,
    name: string,
    subresource: string,
    patch: Json,
  ): Promise<KubeObject> {
    const live = this.#require(resource, namespace, name);
    const method = `PATCH${subresource === '' ? '' : `(${subresource})`}`;
    const write = this.#record(method, resource.kind, name, patch);
    this.#checkVersion(live.metadata, patch.metadata?.resourceVersion);
    const managedFields = [{ name: fieldManager, subresource }];
    const noted = subresource === 'resize' ? { managedFields } : {};
    const stored = this.store(
      merged(live, { ...patch, metadata: { ...patch.metadata, ...noted } }),
    );
    const { metadata } = stored;
    if (metadata.deletionTimestamp !== undefined && (metadata.finalizers ?? []).length === 0) {
      this.remove(stored);
      this.collectGarbage(metadata);
    }
    this.afterWrite(write);
    return stored;
  }

  #checkVersion(live: Metadata, resourceVersion: string | undefined): void {
    if (resourceVersion === undefined || resourceVersion === live.resourceVersion) return;
    throw new KubeError(409, 'Conflict', `the object has been modified: ${live.name}`);
  }

  async evict(namespace: string, pod: string, uid: string): Promise<void> {
    const live = this.objects.get(this.#key('Pod', namespace, pod));
    if (live === undefined) return;
    const write = this.#record('EVICT', 'Pod', pod, live);
    if (uid !== live.metadata.uid) throw new KubeError(409, 'Conflict', pod);
    this.remove(live);
    this.afterWrite(write);
  }

  async delete(
    resource: Resource,
    namespace: string,
    name: string,
    { uid, orphan }: Which,
  ): Promise<void> {
    const live = this.objects.get(this.#key(resource.kind, namespace, name)) as Json;
    if (live === undefined) return;
    const write = this.#record('DELETE', resource.kind, name, live);
    if (uid !== null && uid !== live.metadata.uid) throw new KubeError(409, 'Conflict', name);
    if ((live.metadata.finalizers ?? []).length > 0) {
      const metadata = { ...live.metadata, deletionTimestamp: '2026-01-01T00:00:01Z' };
      this.store({ ...live, metadata });
    } else {
      this.remove(live);
      if (!orphan) this.collectGarbage(live.metadata);
    }
    this.afterWrite(write);
  }

  /** What a deleted object owned goes with it. */
  collectGarbage({ uid }: Metadata): void {
    for (const object of [...this.objects.values()]) {
      const owners = object.metadata.ownerReferences ?? [];
      const others = owners.filter((owner) => owner.uid !== uid);
      if (others.length === owners.length) continue;
      // One that has another owner stays, and forgets this one.
      if (others.length > 0) {
        this.store({ ...object, metadata: { ...object.metadata, ownerReferences: others } });
        continue;
      }
      this.remove(object);
      this.collectGarbage(object.metadata);
    }
  }
}
