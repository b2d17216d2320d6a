/** Real server processes on loopback for integration tests. */
import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { serverEnvironment, serverFlags } from '#lib/process/server_process.mjs';
import { freePorts } from '../ports.ts';

/** These sources. */
export const root: string = join(import.meta.dirname, '../..');

/** Asks until the condition gives something, for at most the time; the last error is the reason. */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | null | undefined | false>,
  timeoutMillis = 60_000,
): Promise<T> {
  const end = performance.now() + timeoutMillis;
  let last: unknown = 'no answer';
  while (performance.now() < end) {
    try {
      const answer = await ask();
      if (answer !== null && answer !== undefined && answer !== false) return answer;
    } catch (error) {
      last = error;
    }
    await delay(100);
  }
  throw new Error(`not within ${timeoutMillis} ms: ${what}`, { cause: last });
}

const running = new Set<ChildProcess>();
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL');
});

/** An etcd of one member. @param ports of clients, and of members */
export function etcdOf(
  folder: string,
  binary: string,
  [clientPort, peerPort]: readonly number[],
): { readonly program: Program; readonly endpoint: string } {
  const endpoint = `127.0.0.1:${clientPort}`;
  const [client, peer] = [`http://${endpoint}`, `http://127.0.0.1:${peerPort}`];
  const program = new Program('etcd', folder, binary, [
    ...['--data-dir', join(folder, 'etcd')],
    ...['--listen-client-urls', client, '--advertise-client-urls', client],
    ...['--listen-peer-urls', peer, '--initial-advertise-peer-urls', peer],
    ...['--initial-cluster', `default=${peer}`],
  ]);
  return { program, endpoint };
}

/** A program with its output in a file of its folder. */
export class Program {
  readonly name: string;
  readonly #command: string;
  readonly #args: readonly string[];
  readonly #environment: Record<string, string>;
  /** Folder of the sources that the next start runs. */
  checkout: string;
  readonly logFile: string;
  #child: ChildProcess | null = null;

  constructor(
    name: string,
    folder: string,
    command: string,
    args: readonly string[],
    environment: Record<string, string> = {},
    checkout: string = root,
  ) {
    mkdirSync(folder, { recursive: true });
    this.name = name;
    this.#command = command;
    this.#args = args;
    this.#environment = environment;
    this.checkout = checkout;
    this.logFile = join(folder, `${name}.log`);
  }

  get pid(): number {
    return this.#child!.pid!;
  }

  start(): void {
    const log = openSync(this.logFile, 'a');
    const child = spawn(this.#command, this.#args, {
      cwd: this.checkout,
      env: { ...process.env, ...this.#environment },
      stdio: ['ignore', log, log],
    });
    closeSync(log);
    // A test that fails ends all the same, and takes its programs with it.
    child.unref();
    running.add(child);
    child.once('exit', () => running.delete(child));
    this.#child = child;
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /**
   * Sends the signal and waits for the end; resolves to the exit code, null after a signal's death.
   */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const child = this.#child;
    if (child === null) return null;
    if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
    child.ref();
    child.kill(signal);
    const forced = new AbortController();
    void delay(20_000, undefined, { signal: forced.signal }).then(
      () => child.kill('SIGKILL'),
      () => {},
    );
    const [code] = (await once(child, 'exit')) as [number | null];
    forced.abort();
    return code;
  }

  log(): string {
    return readFileSync(this.logFile, 'utf8');
  }
}

/** Ports of one storage node with its coordinator. */
export interface NodePorts {
  readonly coordinator: number;
  readonly metrics: number;
  readonly grpc: number;
  readonly grpcCluster: number;
  readonly httpNode: number;
  readonly httpCluster: number;
  readonly debug: number;
  readonly kv: number;
  /** `/metrics` of the storage node. */
  readonly nodeMetrics: number;
}

export interface ServerOptions {
  readonly folder: string;
  /** Cluster mode when given, else single node with the embedded key-value store. */
  readonly etcdEndpoint?: string;
  readonly hostId?: string;
  /** False: a storage node without a coordinator. */
  readonly coordinator?: boolean;
  /** Folder of the sources to run; default: these. */
  readonly checkout?: string;
  /** Further settings of `db`, a line each. */
  readonly settings?: readonly string[];
  /** The same of `coordinator`. */
  readonly coordinatorSettings?: readonly string[];
  readonly environment?: Record<string, string>;
}

/** A storage node process (with coordinator unless said) on free ports. */
export class NodeServer {
  readonly program: Program;
  readonly ports: NodePorts;
  readonly folder: string;

  private constructor(program: Program, ports: NodePorts, folder: string) {
    this.program = program;
    this.ports = ports;
    this.folder = folder;
  }

  static async create(options: ServerOptions): Promise<NodeServer> {
    mkdirSync(options.folder, { recursive: true });
    const free = await freePorts(9);
    const [coordinator, metrics, grpc, grpcCluster, httpNode, httpCluster, debug, kv, nodeMetrics] =
      free as [number, number, number, number, number, number, number, number, number];
    const discovery =
      options.etcdEndpoint === undefined
        ? '{type: tsdb_single_node}'
        : `{type: tsdb_cluster, tsdbCluster: {env: test, zone: embedded, endpoints: ["${options.etcdEndpoint}"]}}`;
    const lines = [
      ...(options.coordinator === false
        ? []
        : [
            'coordinator:',
            `  listenAddress: 127.0.0.1:${coordinator}`,
            `  metrics: {prometheus: {listenAddress: "127.0.0.1:${metrics}"}}`,
            ...(options.coordinatorSettings ?? []).map((line) => `  ${line}`),
          ]),
      'db:',
      `  listenAddress: 127.0.0.1:${grpc}`,
      `  clusterListenAddress: 127.0.0.1:${grpcCluster}`,
      `  httpNodeListenAddress: 127.0.0.1:${httpNode}`,
      `  httpClusterListenAddress: 127.0.0.1:${httpCluster}`,
      `  debugListenAddress: 127.0.0.1:${debug}`,
      `  metrics: {prometheus: {listenAddress: "127.0.0.1:${nodeMetrics}"}}`,
      `  discovery: ${discovery}`,
      `  filesystem: {filePathPrefix: ${join(options.folder, 'data')}}`,
      ...(options.hostId === undefined
        ? []
        : [`  hostID: {resolver: config, value: ${options.hostId}}`]),
      ...(options.etcdEndpoint === undefined ? [`  kv: {listenAddress: "127.0.0.1:${kv}"}`] : []),
      ...(options.settings ?? []).map((line) => `  ${line}`),
    ];
    const file = join(options.folder, 'tsdb.yml');
    writeFileSync(file, `${lines.join('\n')}\n`);
    const program = new Program(
      options.hostId ?? 'node',
      options.folder,
      process.execPath,
      [...serverFlags, 'node/main.mjs', '-f', file],
      { ...serverEnvironment, ...options.environment },
      options.checkout,
    );
    const ports = {
      coordinator,
      metrics,
      grpc,
      grpcCluster,
      httpNode,
      httpCluster,
      debug,
      kv,
      nodeMetrics,
    };
    return new NodeServer(program, ports, options.folder);
  }

  get url(): string {
    return `http://127.0.0.1:${this.ports.coordinator}`;
  }

  /** Starts it and waits until its coordinator (else its node interface) answers. */
  async start(): Promise<void> {
    this.program.start();
    const hasCoordinator = readFileSync(join(this.folder, 'tsdb.yml'), 'utf8').startsWith('coord');
    const url = hasCoordinator
      ? `${this.url}/health`
      : `http://127.0.0.1:${this.ports.httpNode}/health`;
    try {
      await eventually(`${this.program.name} answers`, async () => {
        if (!this.program.running) throw new Error('process has ended');
        return (await fetch(url)).ok;
      });
    } catch (error) {
      throw new Error(`${this.program.name} did not start:\n${this.program.log().slice(-4000)}`, {
        cause: error,
      });
    }
  }
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  // oxlint-disable-next-line no-explicit-any -- answers are of many shapes, tests look into them
  readonly json: any;
}

/** One HTTP request; a body that is no string is sent as JSON. */
export async function call(
  method: string,
  url: string,
  body?: unknown,
  timeoutMillis?: number,
): Promise<Answer> {
  const response = await fetch(url, {
    method,
    ...(timeoutMillis === undefined ? {} : { signal: AbortSignal.timeout(timeoutMillis) }),
    ...(body === undefined
      ? {}
      : typeof body === 'string'
        ? { body, headers: { 'content-type': 'application/x-www-form-urlencoded' } }
        : body instanceof Uint8Array
          ? { body: body as Uint8Array<ArrayBuffer> }
          : { body: JSON.stringify(body), headers: { 'content-type': 'application/json' } }),
  });
  const text = await response.text();
  let json: unknown = null;
  try {
    json = JSON.parse(text);
  } catch {
    // Not every answer is JSON.
  }
  return { status: response.status, text, json };
}

/** database/create (local), wait for AVAILABLE, namespace ready: the quick start of the README. */
export async function createLocalDatabase(
  server: NodeServer,
  namespace: string,
  more: { readonly coldWritesEnabled?: boolean } = {},
): Promise<void> {
  const created = await call('POST', `${server.url}/api/v1/database/create`, {
    type: 'local',
    namespaceName: namespace,
    retentionTime: '48h',
    ...more,
  });
  if (created.status >= 300) throw new Error(`database/create: ${created.text}`);
  await shardsAvailable(server.url);
  await namespaceReady(server.url, namespace);
}

/** Waits until every shard of every instance is AVAILABLE; resolves to the placement. */
export async function shardsAvailable(url: string, timeoutMillis = 60_000): Promise<Placement> {
  return eventually(
    'all shards AVAILABLE',
    async () => {
      const answer = await call('GET', `${url}/api/v1/services/tsdb/placement`);
      if (answer.status !== 200) return null;
      const placement = answer.json.placement as Placement;
      const shards = Object.values(placement.instances).flatMap((instance) => instance.shards);
      return shards.length > 0 && shards.every((shard) => shard.state === 'AVAILABLE')
        ? placement
        : null;
    },
    timeoutMillis,
  );
}

export interface Placement {
  readonly instances: Record<
    string,
    {
      readonly id: string;
      readonly isolationGroup: string;
      readonly shards: readonly { id: number; state: string; sourceId: string }[];
    }
  >;
}

export async function namespaceReady(url: string, name: string): Promise<void> {
  await eventually(`namespace ${name} ready`, async () => {
    const answer = await call('POST', `${url}/api/v1/services/tsdb/namespace/ready`, { name });
    if (answer.status !== 200) throw new Error(answer.text);
    return answer.json.ready === true;
  });
}
