/** The coordinator's admin API as the operator calls it, over the cluster's coordinator Service. */
import type { Env } from '#lib/env/env.ts';
import { httpRequest } from '#lib/env/http.ts';
import { TsdbError } from '#lib/errors.ts';

export interface PlacementShard {
  readonly id: number;
  readonly state: 'INITIALIZING' | 'AVAILABLE' | 'LEAVING';
}

export interface PlacementInstance {
  readonly id: string;
  readonly isolationGroup: string;
  readonly endpoint: string;
  readonly shards: readonly PlacementShard[];
}

export interface PlacementView {
  readonly instances: Readonly<Record<string, PlacementInstance>>;
  readonly numberOfShards: number;
  readonly replicationFactor: number;
  readonly version: number;
  /** The key-value store has gone back: nothing is changed before its approval. */
  readonly awaitsApproval: boolean;
}

/** What a storage node says of itself, or why it does not. */
export type InstanceHealth =
  | {
      /** Blocks of shards of which acknowledged rows may be missing. */
      readonly blocksLacking: number;
      /** The shards that they are of. */
      readonly shardsLacking: readonly number[];
      /** The highest level of formats that it reads. */
      readonly formatLevel: number;
      /** The one that it writes. */
      readonly formatLevelWritten: number;
    }
  | { readonly error: string };

/** An instance in a request, with the members' names of the interface. */
export interface InstanceRequest {
  readonly id: string;
  readonly isolation_group: string;
  readonly zone: string;
  readonly weight: number;
  readonly endpoint: string;
  readonly hostname: string;
  readonly port: number;
}

export interface NamespaceView {
  readonly ready: boolean;
  readonly retentionNanos: string;
  readonly blockSizeNanos: string;
  readonly bufferPastNanos: string;
  readonly bufferFutureNanos: string;
  readonly coldWritesEnabled: boolean;
}

const answerBytesMax = 64 * 1024 * 1024;
const timeoutMillis = 15_000;
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
  | 'upgradeFinish'
  | 'namespaces'
  | 'namespaceAdd'
  | 'namespaceUpdate'
  | 'namespaceReady'
  | 'namespaceDelete'
>;

export class CoordinatorClient {
  readonly #baseUrl: string;
  readonly #env: Env;

  constructor(baseUrl: string, env: Env) {
    this.#baseUrl = baseUrl;
    this.#env = env;
  }

  /** null when there is none. */
  async placement(signal: AbortSignal): Promise<PlacementView | null> {
    const path = '/api/v1/services/tsdb/placement';
    const answer = await this.#call('GET', path, undefined, signal, [404]);
    if (answer === null) return null;
    const {
      placement,
      version,
      awaitsApproval = false,
    } = answer as {
      placement: {
        instances: Record<string, PlacementInstance>;
        numShards: number;
        replicaFactor: number;
      };
      version: number;
      awaitsApproval?: boolean;
    };
    const { instances, numShards, replicaFactor } = placement;
    const shape = { numberOfShards: numShards, replicationFactor: replicaFactor };
    return { instances, ...shape, version, awaitsApproval };
  }

  /** By instance; null when there is no placement, or the coordinator is of a release before. */
  async healths(signal: AbortSignal): Promise<ReadonlyMap<string, InstanceHealth> | null> {
    const path = '/api/v1/services/tsdb/health';
    const answer = await this.#call('GET', path, undefined, signal, [404]);
    if (answer === null) return null;
    const { instances } = answer as { instances: Record<string, InstanceHealth> };
    return new Map(Object.entries(instances));
  }

  async placementInit(
    request: {
      readonly num_shards: number;
      readonly replication_factor: number;
      readonly instances: readonly InstanceRequest[];
    },
    signal: AbortSignal,
  ): Promise<void> {
    await this.#call('POST', '/api/v1/services/tsdb/placement/init', request, signal);
  }

  async placementAdd(instances: readonly InstanceRequest[], signal: AbortSignal): Promise<void> {
    await this.#call('POST', '/api/v1/services/tsdb/placement', { instances }, signal);
  }

  async placementRemove(
    instanceIds: readonly string[],
    force: boolean,
    signal: AbortSignal,
  ): Promise<void> {
    const body = { instance_ids: instanceIds, force };
    await this.#call('POST', '/api/v1/services/tsdb/placement/remove', body, signal);
  }

  /** After the key-value store was lost or went back: what the nodes knew last stands again. */
  async placementApprove(signal: AbortSignal): Promise<void> {
    const path = '/api/v1/services/tsdb/placement/approve';
    await this.#call('POST', path, {}, signal, [], approveTimeoutMillis);
  }

  async placementDelete(signal: AbortSignal): Promise<void> {
    await this.#call('DELETE', '/api/v1/services/tsdb/placement', undefined, signal, [404]);
  }

  /** @throws {TsdbError} CONFLICT that names who does not read the newest formats */
  async upgradeFinish(signal: AbortSignal): Promise<void> {
    await this.#call('POST', '/api/v1/services/tsdb/upgrade/finish', undefined, signal);
  }

  async namespaces(signal: AbortSignal): Promise<ReadonlyMap<string, NamespaceView>> {
    const answer = await this.#call('GET', '/api/v1/services/tsdb/namespace', undefined, signal);
    const { registry } = answer as {
      registry: {
        namespaces: Record<
          string,
          {
            stagingState: { status: string };
            coldWritesEnabled: boolean;
            retentionOptions: {
              retentionPeriodNanos: string;
              blockSizeNanos: string;
              bufferPastNanos: string;
              bufferFutureNanos: string;
            };
          }
        >;
      };
    };
    return new Map(
      Object.entries(registry.namespaces).map(([name, options]) => {
        const { stagingState, coldWritesEnabled, retentionOptions } = options;
        const view: NamespaceView = {
          ready: stagingState.status === 'READY',
          retentionNanos: retentionOptions.retentionPeriodNanos,
          blockSizeNanos: retentionOptions.blockSizeNanos,
          bufferPastNanos: retentionOptions.bufferPastNanos,
          bufferFutureNanos: retentionOptions.bufferFutureNanos,
          coldWritesEnabled,
        };
        return [name, view];
      }),
    );
  }

  async namespaceAdd(name: string, options: object, signal: AbortSignal): Promise<void> {
    await this.#call('POST', '/api/v1/services/tsdb/namespace', { name, options }, signal);
  }

  async namespaceUpdate(name: string, options: object, signal: AbortSignal): Promise<void> {
    await this.#call('PUT', '/api/v1/services/tsdb/namespace', { name, options }, signal);
  }

  async namespaceReady(name: string, signal: AbortSignal): Promise<void> {
    await this.#call('POST', '/api/v1/services/tsdb/namespace/ready', { name }, signal);
  }

  async namespaceDelete(name: string, signal: AbortSignal): Promise<void> {
    const path = `/api/v1/services/tsdb/namespace/${encodeURIComponent(name)}`;
    await this.#call('DELETE', path, undefined, signal, [404]);
  }

  /** The answer's JSON, or null for one of the accepted error codes. */
  async #call(
    method: string,
    path: string,
    body: object | undefined,
    signal: AbortSignal,
    accepted: readonly number[] = [],
    millisMax: number = method === 'GET' ? readTimeoutMillis : timeoutMillis,
  ): Promise<unknown> {
    const deadline = this.#env.clock.deadline(millisMax, signal);
    const answer = await httpRequest(
      this.#baseUrl + path,
      {
        method,
        headers: { 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        responseBytesMax: answerBytesMax,
      },
      deadline,
    ).catch((error: unknown) => {
      if (signal.aborted || !deadline.aborted) throw error;
      const message = `${method} ${this.#baseUrl}${path}: no answer in ${millisMax / 1000} s`;
      throw new TsdbError('UNAVAILABLE', message, { cause: error });
    });
    if (accepted.includes(answer.status)) return null;
    const text = Buffer.from(answer.body).toString();
    if (answer.status >= 300) {
      const code =
        answer.status === 409 ? 'CONFLICT' : answer.status < 500 ? 'BAD_REQUEST' : 'UNAVAILABLE';
      const call = `${method} ${path}: ${answer.status}`;
      const said = saidOf(answer.status, text);
      if (said === null) throw new TsdbError(code, `${call} ${text.slice(0, textCharactersMax)}`);
      throw new TsdbError(code, said.slice(0, textCharactersMax), { cause: new Error(call) });
    }
    return text === '' ? {} : (JSON.parse(text) as unknown);
  }
}
