/** Events of our resources: one that repeats is counted, not written again. */
import type { Env } from '#lib/env/env.ts';
import type { Log } from '#lib/log.ts';
import { type KubeObject, resource } from '../resource/kube_objects.ts';
import { contentHash } from '../resource/content_hash.ts';
import { type KubeClient, KubeError } from './kube_api.ts';

/** Repeated events that are still counted; an older one starts anew. */
const countedMax = 512;
/** A repeated event is written at most this often. */
const repeatMillisMin = 60_000;

export interface EventText {
  readonly reason: string;
  readonly message: string;
  readonly type: 'Normal' | 'Warning';
  /** Also when it is told again: something else was the case meanwhile. */
  readonly isNews?: true;
}

interface Counted {
  readonly name: string;
  count: number;
  writtenAtMillis: number;
}

export class EventRecorder {
  readonly #api: KubeClient;
  readonly #env: Env;
  readonly #log: Log;
  readonly #counted = new Map<string, Counted>();

  constructor({
    api,
    env,
    log,
  }: { readonly api: KubeClient; readonly env: Env; readonly log: Log }) {
    this.#api = api;
    this.#env = env;
    this.#log = log;
  }

  /** A lost event is no reason to fail. */
  async record(object: KubeObject, event: EventText, signal: AbortSignal): Promise<void> {
    const key = contentHash([object.metadata.uid, event.type, event.reason, event.message]);
    const known = this.#counted.get(key);
    const nowMillis = this.#env.clock.monotonicMillis();
    try {
      if (known === undefined) {
        const name = await this.#create(object, event, signal);
        this.#counted.set(key, { name, count: 1, writtenAtMillis: nowMillis });
        if (this.#counted.size > countedMax) {
          this.#counted.delete(this.#counted.keys().next().value!);
        }
        return;
      }
      known.count++;
      if (event.isNews !== true && nowMillis - known.writtenAtMillis < repeatMillisMin) return;
      known.writtenAtMillis = nowMillis;
      const patch = { count: known.count, lastTimestamp: isoSeconds(this.#env) };
      const namespace = object.metadata.namespace!;
      await this.#api.mergePatch(resource.event, namespace, known.name, '', patch, signal);
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      // Events live for an hour: one that is gone is written anew the next time.
      this.#counted.delete(key);
      this.#log.debug({ reason: event.reason, error: error.message }, 'event not recorded');
    }
  }

  async #create(object: KubeObject, event: EventText, signal: AbortSignal): Promise<string> {
    const { apiVersion, kind, metadata } = object;
    const now = isoSeconds(this.#env);
    const eventName = `${metadata.name}.${Buffer.from(this.#env.random.bytes(6)).toString('hex')}`;
    await this.#api.create(
      resource.event,
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: eventName, namespace: metadata.namespace! },
        involvedObject: {
          apiVersion,
          kind,
          name: metadata.name,
          namespace: metadata.namespace,
          uid: metadata.uid,
        },
        reason: event.reason,
        message: event.message.slice(0, 1024),
        type: event.type,
        source: { component: 'tsdb-operator' },
        firstTimestamp: now,
        lastTimestamp: now,
        count: 1,
      },
      signal,
    );
    return eventName;
  }
}

/** Now as RFC 3339 with whole seconds, as conditions and events are stamped. */
export function isoSeconds(env: Env): string {
  return `${new Date(env.clock.nowMillis()).toISOString().slice(0, 19)}Z`;
}
