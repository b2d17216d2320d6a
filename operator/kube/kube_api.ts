/**
 * The Kubernetes API as raw JSON: the one place that knows @kubernetes/client-node, of which we
 * take the configuration and the credentials. Its typed calls drop members that their model lacks,
 * and its informer ends for good after one failed request, so requests and watches are ours.
 */
import { KubeConfig } from '@kubernetes/client-node';
import { StreamClient } from '#lib/env/stream_request.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import { fieldManager } from '../resource/keys.ts';
import { type KubeObject, type Resource, resource } from '../resource/kube_objects.ts';

/**
 * An answer of the API server that is an error; `reason` is Conflict, NotFound, Invalid and so on.
 */
export class KubeError extends Error {
  override readonly name = 'KubeError';
  readonly status: number;
  readonly reason: string;
  /** How long the server asks to wait; 0 when it does not say. */
  readonly retryAfterMillis: number;

  constructor(status: number, reason: string, message: string, retryAfterMillis = 0) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.retryAfterMillis = retryAfterMillis;
  }
}

export interface KubeList {
  readonly items: readonly KubeObject[];
  readonly resourceVersion: string;
}

export type KubeWatchEvent =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'; readonly object: KubeObject }
  | { readonly type: 'ERROR'; readonly status: number; readonly message: string };

const responseBytesMax = 64 * 1024 * 1024;
const requestIdleMillisMax = 30_000;
/**
 * The server ends a watch after this time; silence for longer means that the connection is dead.
 */
const watchSecondsMax = 240;

/** What of an object's name is deleted, and how. */
export interface Which {
  readonly uid: string | null;
  readonly orphan: boolean;
  readonly atOnce?: boolean;
}

/** The calls that the operator makes; a fake one has them too. */
export type KubeClient = Pick<
  KubeApi,
  'get' | 'list' | 'watch' | 'apply' | 'create' | 'replace' | 'mergePatch' | 'evict' | 'delete'
>;

export class KubeApi {
  readonly #config: KubeConfig;
  readonly #server: string;
  readonly #client: StreamClient;
  readonly #beforeWrite: () => void;
  /** Called with each answer of the server: to `GET`, `WATCH`, `PATCH` and so on, and its status. */
  onAnswer: (method: string, status: number) => void = () => {};

  private constructor(
    config: KubeConfig,
    server: string,
    client: StreamClient,
    beforeWrite: () => void = () => {},
  ) {
    this.#config = config;
    this.#server = server;
    this.#client = client;
    this.#beforeWrite = beforeWrite;
  }

  /** The same connection; nothing is written when `mayWrite` throws. */
  fenced(mayWrite: () => void): KubeApi {
    const fenced = new KubeApi(this.#config, this.#server, this.#client, mayWrite);
    fenced.onAnswer = (method, status) => this.onAnswer(method, status);
    return fenced;
  }

  /** From inside a pod, else from the file that KUBECONFIG names. */
  static async connect(): Promise<KubeApi> {
    const config = new KubeConfig();
    config.loadFromDefault();
    const cluster = config.getCurrentCluster();
    if (cluster === null) throw new TsdbError('UNAVAILABLE', 'no Kubernetes cluster is configured');
    const options: Parameters<KubeConfig['applyToHTTPSOptions']>[0] = {};
    await config.applyToHTTPSOptions(options);
    const tls = options as Record<string, never>;
    return new KubeApi(
      config,
      cluster.server,
      new StreamClient(cluster.server, {
        ca: tls['ca'],
        cert: tls['cert'],
        key: tls['key'],
        rejectUnauthorized: tls['rejectUnauthorized'],
        servername: tls['servername'],
      }),
    );
  }

  close(): void {
    this.#client.close();
  }

  /** @param namespace null for an object that is in none */
  async get(
    resource: Resource,
    namespace: string | null,
    name: string,
    signal: AbortSignal,
  ): Promise<KubeObject | null> {
    try {
      return await this.#json('GET', pathOf(resource, namespace, name), undefined, signal);
    } catch (error) {
      if (error instanceof KubeError && error.status === 404) return null;
      throw error;
    }
  }

  /** @param namespace null for all namespaces */
  async list(
    resource: Resource,
    namespace: string | null,
    labelSelector: string,
    signal: AbortSignal,
  ): Promise<KubeList> {
    const query = new URLSearchParams(labelSelector === '' ? {} : { labelSelector });
    const path = `${pathOf(resource, namespace)}?${query}`;
    const answer = await this.#json('GET', path, undefined, signal);
    const items = (answer['items'] ?? []) as KubeObject[];
    return {
      // Members of a list carry neither kind nor version.
      items: items.map((item) => ({
        ...item,
        apiVersion: resource.apiVersion,
        kind: resource.kind,
      })),
      resourceVersion: answer.metadata.resourceVersion ?? '',
    };
  }

  /** Changes from this version on, with bookmarks; ends when the server ends it. */
  async *watch(
    resource: Resource,
    namespace: string | null,
    labelSelector: string,
    resourceVersion: string,
    signal: AbortSignal,
  ): AsyncGenerator<KubeWatchEvent> {
    const query = new URLSearchParams({
      watch: 'true',
      allowWatchBookmarks: 'true',
      resourceVersion,
      timeoutSeconds: String(watchSecondsMax),
    });
    if (labelSelector !== '') query.set('labelSelector', labelSelector);
    const response = await this.#client.request(
      `${this.#server}${pathOf(resource, namespace)}?${query}`,
      {
        method: 'GET',
        headers: await this.#headers(),
        idleMillisMax: (watchSecondsMax + 30) * 1000,
      },
      signal,
    );
    this.onAnswer('WATCH', response.status);
    if (response.status !== 200) {
      const text = await textOf(response.body);
      throw errorOf(response.status, text, response.headers, `WATCH ${resource.plural}`);
    }
    const decoder = new TextDecoder();
    let rest = '';
    for await (const bytes of response.body) {
      rest += decoder.decode(bytes, { stream: true });
      if (rest.length > responseBytesMax)
        throw new TsdbError('UNAVAILABLE', 'watch event too long');
      for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
        const line = rest.slice(0, end);
        rest = rest.slice(end + 1);
        if (line !== '') yield eventOf(line);
      }
    }
  }

  /** Server-side apply: the given members become as given, and ours. */
  apply(object: KubeObject, signal: AbortSignal): Promise<KubeObject> {
    const path = pathOf(
      resourceOf(object),
      object.metadata.namespace ?? null,
      object.metadata.name,
    );
    const query = new URLSearchParams({ fieldManager, force: 'true' });
    return this.#json('PATCH', `${path}?${query}`, object, signal, 'application/apply-patch+yaml');
  }

  /** The same for the definition of a resource, as YAML. */
  async applyDefinition(name: string, yaml: string, signal: AbortSignal): Promise<void> {
    const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`;
    const query = new URLSearchParams({ fieldManager, force: 'true' });
    await this.#json('PATCH', `${path}?${query}`, yaml, signal, 'application/apply-patch+yaml');
  }

  create(resource: Resource, object: KubeObject, signal: AbortSignal): Promise<KubeObject> {
    return this.#json('POST', pathOf(resource, object.metadata.namespace ?? null), object, signal);
  }

  /** Whole object with its resourceVersion: a compare-and-set. */
  replace(resource: Resource, object: KubeObject, signal: AbortSignal): Promise<KubeObject> {
    const path = pathOf(resource, object.metadata.namespace ?? null, object.metadata.name);
    return this.#json('PUT', path, object, signal);
  }

  mergePatch(
    resource: Resource,
    namespace: string,
    name: string,
    subresource: '' | 'status' | 'scale' | 'resize',
    patch: object,
    signal: AbortSignal,
  ): Promise<KubeObject> {
    const path = `${pathOf(resource, namespace, name)}${subresource === '' ? '' : `/${subresource}`}`;
    const query = new URLSearchParams({ fieldManager });
    return this.#json('PATCH', `${path}?${query}`, patch, signal, 'application/merge-patch+json');
  }

  /**
   * Asks for this very pod to go, as a drain does: its disruption budget may refuse it (429).
   * No error when it is not there.
   */
  async evict(namespace: string, pod: string, uid: string, signal: AbortSignal): Promise<void> {
    const body = {
      apiVersion: 'policy/v1',
      kind: 'Eviction',
      metadata: { name: pod, namespace },
      deleteOptions: { preconditions: { uid } },
    };
    const path = `${pathOf(resource.pod, namespace, pod)}/eviction`;
    try {
      await this.#json('POST', path, body, signal);
    } catch (error) {
      if (!(error instanceof KubeError && error.status === 404)) throw error;
    }
  }

  /**
   * No error when it is not there. With a uid only that very object goes; with orphan its children
   * stay; at once: without waiting for the machine of a pod.
   */
  async delete(
    resource: Resource,
    namespace: string,
    name: string,
    { uid, orphan, atOnce = false }: Which,
    signal: AbortSignal,
  ): Promise<void> {
    const body = {
      ...(atOnce ? { gracePeriodSeconds: 0 } : {}),
      propagationPolicy: orphan ? 'Orphan' : 'Background',
      ...(uid === null ? {} : { preconditions: { uid } }),
    };
    try {
      await this.#json('DELETE', pathOf(resource, namespace, name), body, signal);
    } catch (error) {
      if (!(error instanceof KubeError && error.status === 404)) throw error;
    }
  }

  async #headers(): Promise<Record<string, string>> {
    const options: Parameters<KubeConfig['applyToHTTPSOptions']>[0] = { headers: {} };
    // Reads the token anew when its file has changed.
    await this.#config.applyToHTTPSOptions(options);
    return { accept: 'application/json', ...(options.headers as Record<string, string>) };
  }

  async #json(
    method: string,
    path: string,
    body: object | string | undefined,
    signal: AbortSignal,
    contentType = 'application/json',
  ): Promise<KubeObject> {
    const headers = await this.#headers();
    if (method !== 'GET') this.#beforeWrite();
    const response = await this.#client.request(
      `${this.#server}${path}`,
      {
        method,
        headers: { ...headers, 'content-type': contentType },
        ...(body === undefined
          ? {}
          : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
        idleMillisMax: requestIdleMillisMax,
      },
      signal,
    );
    const text = await textOf(response.body);
    this.onAnswer(method, response.status);
    if (response.status >= 300) {
      throw errorOf(response.status, text, response.headers, `${method} ${path}`);
    }
    return JSON.parse(text) as KubeObject;
  }
}

export function resourceOf(object: KubeObject): Resource {
  const kind = object.kind;
  const singular = kind.toLowerCase();
  const plural = singular.endsWith('y') ? `${singular.slice(0, -1)}ies` : `${singular}s`;
  return { apiVersion: object.apiVersion, kind, plural };
}

/** Names may come from a resource: none of them leads to another object. */
function pathOf(resource: Resource, namespace: string | null, name?: string): string {
  const root = resource.apiVersion.includes('/') ? '/apis' : '/api';
  const scope = namespace === null ? '' : `/namespaces/${segmentOf(namespace)}`;
  const tail = name === undefined ? '' : `/${segmentOf(name)}`;
  return `${root}/${resource.apiVersion}${scope}/${resource.plural}${tail}`;
}

/** @throws {TsdbError} BAD_REQUEST for what is no name of an object */
function segmentOf(name: string): string {
  if (name === '' || name === '.' || name === '..' || /[/%]/.test(name)) {
    throw badRequest(`no name of an object of Kubernetes: ${JSON.stringify(name)}`);
  }
  return encodeURIComponent(name);
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const part of body) {
    parts.push(part);
    length += part.length;
    if (length > responseBytesMax)
      throw new TsdbError('UNAVAILABLE', 'answer of Kubernetes is too long');
  }
  return Buffer.concat(parts).toString();
}

function errorOf(
  status: number,
  text: string,
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
  what: string,
): KubeError {
  // Seconds; the server never sends a date.
  const retryAfterMillis = 1000 * (Number(headers['retry-after'] ?? 0) || 0);
  try {
    const { reason, message } = JSON.parse(text) as { reason?: string; message?: string };
    const shown = message ?? text.slice(0, 500);
    return new KubeError(status, reason ?? 'Unknown', shown, retryAfterMillis);
  } catch {
    const shown = `${what}: ${status} ${text.slice(0, 500).trim()}`;
    return new KubeError(status, 'Unknown', shown, retryAfterMillis);
  }
}

function eventOf(line: string): KubeWatchEvent {
  const event = JSON.parse(line) as { type: string; object: KubeObject };
  if (event.type === 'ERROR') {
    const status = event.object as unknown as { code?: number; message?: string };
    return { type: 'ERROR', status: status.code ?? 500, message: status.message ?? 'watch failed' };
  }
  return event as KubeWatchEvent;
}
