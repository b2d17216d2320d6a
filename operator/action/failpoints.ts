/**
 * Failures on purpose at the writes of the operator, for the tests on a real Kubernetes: each write
 * has a name, and may fail, wait, or end the process before it is sent or after it was answered. A
 * process that is not asked to has none of it.
 */
import type { Env } from '#lib/env/env.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { parseDurationNanos } from '#lib/time.ts';
import type { KubeClient } from '../kube/kube_api.ts';
import { type KubeObject, type Resource, resource } from '../resource/kube_objects.ts';
import type { Action } from './action.ts';

/** Writes that are no actions of a plan. */
type OtherWrite =
  | 'cluster'
  | 'cluster-status'
  | 'namespace'
  | 'namespace-status'
  | 'event'
  | 'lease'
  | 'finalize-delete'
  | 'finalize-keys';

export type Write = Action['kind'] | OtherWrite;

const named: Readonly<Record<Write, true>> = {
  apply: true,
  delete: true,
  'scale-set': true,
  'etcd-add': true,
  'etcd-promote': true,
  'etcd-remove': true,
  'etcd-move-leader': true,
  'etcd-defragment': true,
  'etcd-compact': true,
  'etcd-disarm': true,
  'evict-pod': true,
  'replace-pod': true,
  'resize-pod': true,
  'own-claim': true,
  'expand-claim': true,
  'placement-init': true,
  'placement-add': true,
  'placement-remove': true,
  'placement-approve': true,
  'aggregators-init': true,
  'aggregators-add': true,
  'aggregators-remove': true,
  'aggregators-delete': true,
  'upgrade-finish': true,
  'namespace-add': true,
  'namespace-update': true,
  'namespace-ready': true,
  'namespace-delete': true,
  cluster: true,
  'cluster-status': true,
  namespace: true,
  'namespace-status': true,
  event: true,
  lease: true,
  'finalize-delete': true,
  'finalize-keys': true,
};

/** Tells an end on purpose from any other. */
export const failpointExitCode = 86;

interface Failpoint {
  readonly text: string;
  readonly write: string;
  /** Name of the object that is written; null for any. */
  readonly object: string | null;
  readonly moment: 'before' | 'after';
  readonly effect: 'exit' | 'error' | 'delay';
  readonly delayMillis: number;
  /** How often it may still happen. */
  left: number;
}

export interface FailpointOptions {
  readonly env: Env;
  readonly log: Log;
  /** Ends the process at once, with nothing given back or closed. */
  readonly exit: () => void;
}

export interface Failpoints {
  /** Carries out a write of an object of this name, with what was asked for around it. */
  around<T>(write: Write, object: string, send: () => Promise<T>, signal: AbortSignal): Promise<T>;
  /** The same client, with its writes of what is the operator's own; children are written by actions. */
  client(api: KubeClient): KubeClient;
}

/** Of a process that is not asked for failures. */
export const noFailpoints: Failpoints = {
  around: (_write, _object, send) => send(),
  client: (api) => api,
};

/**
 * @param text `WRITE[/OBJECT]:before|after=exit|error|delay(2s)[*TIMES]`, comma-separated; empty for
 * none. Without TIMES it happens each time.
 * @throws {TsdbError} BAD_REQUEST for anything else
 */
export function openFailpoints(text: string, options: FailpointOptions): Failpoints {
  const points = text
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
    .map(parsed);
  if (points.length === 0) return noFailpoints;
  options.log.warn({ failpoints: text }, 'failures on purpose');
  return new ArmedFailpoints(points, options);
}

const syntax =
  /^(?<write>[a-z-]+)(\/(?<object>[a-z0-9.-]+))?:(?<moment>before|after)=(?<effect>exit|error|delay\((?<delay>[^)]+)\))(\*(?<times>[1-9][0-9]*))?$/;

class ArmedFailpoints implements Failpoints {
  readonly #points: readonly Failpoint[];
  readonly #options: FailpointOptions;

  constructor(points: readonly Failpoint[], options: FailpointOptions) {
    this.#points = points;
    this.#options = options;
  }

  async around<T>(
    write: Write,
    object: string,
    send: () => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    await this.#meet('before', write, object, signal);
    const answer = await send();
    await this.#meet('after', write, object, signal);
    return answer;
  }

  client(api: KubeClient): KubeClient {
    const around = <T>(
      kind: Resource,
      part: string,
      object: string,
      send: () => Promise<T>,
      signal: AbortSignal,
    ): Promise<T> => {
      const write = ownWrite(kind, part);
      return write === null ? send() : this.around(write, object, send, signal);
    };
    const nameOf = ({ metadata }: KubeObject): string => metadata.name;
    return {
      get: (...args) => api.get(...args),
      list: (...args) => api.list(...args),
      watch: (...args) => api.watch(...args),
      apply: (...args) => api.apply(...args),
      evict: (...args) => api.evict(...args),
      delete: (...args) => api.delete(...args),
      create: (kind, object, signal) =>
        around(kind, '', nameOf(object), () => api.create(kind, object, signal), signal),
      replace: (kind, object, signal) =>
        around(kind, '', nameOf(object), () => api.replace(kind, object, signal), signal),
      mergePatch: (kind, namespace, name, part, patch, signal) => {
        const send = () => api.mergePatch(kind, namespace, name, part, patch, signal);
        return around(kind, part, name, send, signal);
      },
    };
  }

  async #meet(
    moment: 'before' | 'after',
    write: string,
    object: string,
    signal: AbortSignal,
  ): Promise<void> {
    const { env, log, exit } = this.#options;
    for (const point of this.#points) {
      const isMeant =
        point.moment === moment &&
        point.write === write &&
        (point.object === null || point.object === object) &&
        point.left > 0;
      if (!isMeant) continue;
      point.left--;
      log.warn({ failpoint: point.text, object }, 'failpoint');
      if (point.effect === 'exit') exit();
      else if (point.effect === 'delay') await env.clock.sleep(point.delayMillis, signal);
      else throw new TsdbError('UNAVAILABLE', `failpoint ${point.text}`);
    }
  }
}

function parsed(text: string): Failpoint {
  const groups = syntax.exec(text)?.groups;
  if (groups === undefined || !Object.hasOwn(named, groups['write']!)) {
    const names = Object.keys(named).join(' ');
    const message = `TSDB_OPERATOR_FAILPOINTS: ${text} is not WRITE[/OBJECT]:before|after=exit|error|delay(2s)[*TIMES]; writes are ${names}`;
    throw badRequest(message);
  }
  const { write, object, moment, effect, delay, times } = groups;
  return {
    text,
    write: write!,
    object: object ?? null,
    moment: moment as 'before' | 'after',
    effect: delay === undefined ? (effect as 'exit' | 'error') : 'delay',
    delayMillis: delay === undefined ? 0 : Number(parseDurationNanos(delay, 'delay') / 1_000_000n),
    left: times === undefined ? Number.POSITIVE_INFINITY : Number(times),
  };
}

function ownWrite(kind: Resource, part: string): OtherWrite | null {
  switch (kind.kind) {
    case resource.cluster.kind:
      return part === 'status' ? 'cluster-status' : 'cluster';
    case resource.namespace.kind:
      return part === 'status' ? 'namespace-status' : 'namespace';
    case resource.event.kind:
      return 'event';
    case resource.lease.kind:
      return 'lease';
    default:
      return null;
  }
}
