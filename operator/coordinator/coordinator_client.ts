/** The coordinator's admin API as the operator calls it, over the cluster's coordinator Service. */
import type { Env } from '#lib/env/env.ts';
import { type HttpClientResponse, httpRequest } from '#lib/env/http.ts';
import { type ErrorCode, TsdbError } from '#lib/errors.ts';
import {
  healthsOf,
  type InstanceHealth,
  registryOf,
  type RegistryView,
  placementOf,
  type PlacementView,
} from './answers.ts';
import type { LargeAnswers } from './large_answers.ts';

export type {
  InstanceHealth,
  NamespaceView,
  PlacementInstance,
  PlacementShard,
  PlacementView,
} from './answers.ts';

/** An instance in a request, with the members' names of the interface. */
export interface InstanceRequest {
  readonly id: string;
  readonly isolation_group: string;
  readonly zone: string;
  readonly weight: number;
  readonly endpoint: string;
  readonly hostname: string;
  readonly port: number;
  /** Of aggregators. */
  readonly shard_set_id?: number;
}

/**
 * Of all answers but placements. Some 200 bytes take the health of a node, of which there are 16,000 at
 * most, and some 1,000 a namespace.
 */
const answerBytesMax = 4 * 1024 * 1024;
/** Of a shard in an instance. */
const shardBytesMax = 256;
/** Of the largest placement: what is made of it has to be held by an operator of 512 MiB. */
const placementBytesMax = 32 * 1024 * 1024;
/** A larger answer waits for room (`LargeAnswers`). */
const smallAnswerBytesMax = 256 * 1024;
/**
 * An object or a list in our answers takes more bytes than this, but for the few of an answer without
 * content. One that is nothing but `{},{},…` would become twenty times as large as its text.
 */
const objectBytesMin = 16;
const objectsFree = 64;
/** Of an answer to a failure. */
const errorBytesMax = 64 * 1024;
const timeoutMillis = 15_000;
const placementPath = '/api/v1/services/tsdb/placement';
const aggregatorsPath = '/api/v1/services/m3aggregator/placement';
/** The version rises by one write each to above that of before. */
const approveTimeoutMillis = 120_000;
/** What is read comes at once or not at all. */
const readTimeoutMillis = 5_000;
/** Of an answer, in an error. */
const textCharactersMax = 1_000;

/**
 * The sentence for a person in the answer to a failure, which conditions show as it is; null when
 * there is none that says something without its call.
 */
function saidOf(status: number, text: string): string | null {
  // Whoever did not expect the failure has no words for it.
  if (status === 500) return null;
  try {
    const { error } = JSON.parse(text) as { readonly error?: unknown };
    return typeof error === 'string' && error.includes(' ') ? error : null;
  } catch {
    return null;
  }
}

/** The calls that the operator makes; a fake one has them too. */
export type Coordinator = Pick<
  CoordinatorClient,
  | 'placement'
  | 'healths'
  | 'placementInit'
  | 'placementAdd'
  | 'placementRemove'
  | 'placementApprove'
  | 'placementDelete'
  | 'aggregators'
  | 'aggregatorsInit'
  | 'aggregatorsAdd'
  | 'aggregatorsRemove'
  | 'aggregatorsDelete'
  | 'upgradeFinish'
  | 'registry'
  | 'namespaceAdd'
  | 'namespaceUpdate'
  | 'namespaceReady'
  | 'namespaceDelete'
>;

/** The image of coordinators is the author's of the resource: what they answer is bounded by it. */
export interface AnswerLimits {
  readonly numberOfShards: number;
  readonly replicationFactor: number;
  /** Of this process. */
  readonly largeAnswers: LargeAnswers;
}

export class CoordinatorClient {
  readonly #baseUrl: string;
  readonly #env: Env;
  readonly #largeAnswers: LargeAnswers;
  readonly #placementBytesMax: number;

  constructor(baseUrl: string, env: Env, limits: AnswerLimits) {
    const { numberOfShards, replicationFactor, largeAnswers } = limits;
    this.#baseUrl = baseUrl;
    this.#env = env;
    this.#largeAnswers = largeAnswers;
    // While a shard moves, two instances have it.
    const shardsMax = 2 * numberOfShards * replicationFactor;
    this.#placementBytesMax = Math.min(
      placementBytesMax,
      answerBytesMax + shardsMax * shardBytesMax,
    );
  }

  /** null when there is none. */
  async placement(signal: AbortSignal): Promise<PlacementView | null> {
    return this.#read(placementPath, placementOf, signal, [404]);
  }

  /** By instance; null when there is no placement, or the coordinator is of a release before. */
  async healths(signal: AbortSignal): Promise<ReadonlyMap<string, InstanceHealth> | null> {
    const path = '/api/v1/services/tsdb/health';
    return this.#read(path, healthsOf, signal, [404]);
  }

  async placementInit(
    request: {
      readonly num_shards: number;
      readonly replication_factor: number;
      readonly instances: readonly InstanceRequest[];
    },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#change('POST', `${placementPath}/init`, request, signal);
  }

  async placementAdd(instances: readonly InstanceRequest[], signal: AbortSignal): Promise<void> {
    await this.#change('POST', placementPath, { instances }, signal);
  }

  async placementRemove(
    instanceIds: readonly string[],
    force: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const body = { instance_ids: instanceIds, force };
    await this.#change('POST', `${placementPath}/remove`, body, signal);
  }

  /** After the key-value store was lost or went back: what the nodes knew last stands again. */
  async placementApprove(signal: AbortSignal): Promise<void> {
    const path = `${placementPath}/approve`;
    await this.#change('POST', path, {}, signal, [], approveTimeoutMillis);
  }

  async placementDelete(signal: AbortSignal): Promise<void> {
    await this.#change('DELETE', placementPath, undefined, signal, [404]);
  }

  /** The placement of aggregators; null when there is none, or the coordinator is of a release before. */
  async aggregators(signal: AbortSignal): Promise<PlacementView | null> {
    return this.#read(aggregatorsPath, placementOf, signal, [404]);
  }

  async aggregatorsInit(
    request: {
      readonly num_shards: number;
      readonly replication_factor: number;
      readonly instances: readonly InstanceRequest[];
    },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#change('POST', `${aggregatorsPath}/init`, request, signal);
  }

  async aggregatorsAdd(instances: readonly InstanceRequest[], signal: AbortSignal): Promise<void> {
    await this.#change('POST', aggregatorsPath, { instances }, signal);
  }

  async aggregatorsRemove(instanceIds: readonly string[], signal: AbortSignal): Promise<void> {
    await this.#change('POST', `${aggregatorsPath}/remove`, { instance_ids: instanceIds }, signal);
  }

  /** Coordinators make rollups again. */
  async aggregatorsDelete(signal: AbortSignal): Promise<void> {
    await this.#change('DELETE', aggregatorsPath, undefined, signal, [404]);
  }

  /** @throws {TsdbError} CONFLICT that names who does not read the newest formats */
  async upgradeFinish(signal: AbortSignal): Promise<void> {
    await this.#change('POST', '/api/v1/services/tsdb/upgrade/finish', undefined, signal);
  }

  async registry(signal: AbortSignal): Promise<RegistryView> {
    const path = '/api/v1/services/tsdb/namespace';
    return (await this.#read(path, registryOf, signal))!;
  }

  async namespaceAdd(name: string, options: object, signal: AbortSignal): Promise<void> {
    await this.#change('POST', '/api/v1/services/tsdb/namespace', { name, options }, signal);
  }

  async namespaceUpdate(name: string, options: object, signal: AbortSignal): Promise<void> {
    await this.#change('PUT', '/api/v1/services/tsdb/namespace', { name, options }, signal);
  }

  async namespaceReady(name: string, signal: AbortSignal): Promise<void> {
    await this.#change('POST', '/api/v1/services/tsdb/namespace/ready', { name }, signal);
  }

  async namespaceDelete(name: string, signal: AbortSignal): Promise<void> {
    const path = `/api/v1/services/tsdb/namespace/${encodeURIComponent(name)}`;
    await this.#change('DELETE', path, undefined, signal, [404]);
  }

  /** @returns null for one of the accepted error codes */
  #read<View>(
    path: string,
    viewOf: (answer: unknown) => View,
    signal: AbortSignal,
    accepted: readonly number[] = [],
  ): Promise<View | null> {
    const request = { method: 'GET', path, accepted, millisMax: readTimeoutMillis };
    return this.#call(request, (body) => viewOf(jsonOf(body)), signal);
  }

  /** What it is answered with is not looked at. */
  async #change(
    method: string,
    path: string,
    body: object | undefined,
    signal: AbortSignal,
    accepted: readonly number[] = [],
    millisMax: number = timeoutMillis,
  ): Promise<void> {
    const request = { method, path, accepted, millisMax };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    await this.#call({ ...request, ...sent }, () => null, signal);
  }

  /** @param take is done with the body when it returns: the next large answer may come */
  async #call<Result>(
    { method, path, body, accepted, millisMax }: Request,
    take: (body: Uint8Array) => Result,
    signal: AbortSignal,
  ): Promise<Result | null> {
    const deadline = this.#env.clock.deadline(millisMax, signal);
    const request = {
      method,
      headers: { 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body }),
      responseBytesMax: path.startsWith(placementPath) ? this.#placementBytesMax : answerBytesMax,
    };
    const largeResponse = {
      bytes: smallAnswerBytesMax,
      enter: () => this.#largeAnswers.enter(request),
    };
    try {
      const url = this.#baseUrl + path;
      const answer = await httpRequest(url, { ...request, largeResponse }, deadline);
      if (accepted.includes(answer.status)) return null;
      if (answer.status >= 300) throw failureOf(`${method} ${path}`, answer);
      return take(answer.body);
    } catch (error) {
      if (signal.aborted || !deadline.aborted) throw error;
      const message = `${method} ${this.#baseUrl}${path}: no answer in ${millisMax / 1000} s`;
      throw new TsdbError('UNAVAILABLE', message, { cause: error });
    } finally {
      this.#largeAnswers.leave(request);
    }
  }
}

interface Request {
  readonly method: string;
  readonly path: string;
  readonly body?: string;
  readonly accepted: readonly number[];
  readonly millisMax: number;
}

/** Answers that say nothing of what was asked for. */
const codes: Readonly<Record<number, ErrorCode>> = {
  404: 'NOT_FOUND',
  409: 'CONFLICT',
  429: 'RESOURCE_EXHAUSTED',
};

function failureOf(request: string, { status, body }: HttpClientResponse): TsdbError {
  const text = Buffer.from(body.subarray(0, errorBytesMax)).toString();
  const code = codes[status] ?? (status < 500 ? 'BAD_REQUEST' : 'UNAVAILABLE');
  const call = `${request}: ${status}`;
  const said = saidOf(status, text);
  if (said === null) return new TsdbError(code, `${call} ${text.slice(0, textCharactersMax)}`);
  return new TsdbError(code, said.slice(0, textCharactersMax), { cause: new Error(call) });
}

function jsonOf(body: Uint8Array): unknown {
  let objects = 0;
  // Of objects and lists; a brace in a text counts, too.
  for (let at = 0; at < body.length; at++) {
    if (body[at] === 0x7b || body[at] === 0x5b) objects++;
  }
  if (objects > objectsFree + body.length / objectBytesMin) {
    throw new TsdbError('UNAVAILABLE', 'the coordinator answers with objects without content');
  }
  return JSON.parse(new TextDecoder().decode(body));
}
