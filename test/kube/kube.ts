/**
 * The Kubernetes of the scenarios: brought up by up.sh, asked by kubectl with a limit on every
 * call.
 */
import { spawn } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const here = import.meta.dirname;
/** Where the test cluster has its files. */
export const home: string = process.env['KUBE_HOME'] ?? join(tmpdir(), 'tsdb-kube');
const callMillisMax = 30_000;
/** Seconds on an idle machine; minutes on one that runs other tests too. */
const scriptMillisMax = 300_000;
/** How long output that was written before the exit may take to arrive. */
const pipeMillisMax = 5_000;
const programs = [
  ...['kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kubelet', 'kube-proxy'],
  ...['kubectl', 'etcd', 'etcdutl', 'helm', 'coredns', 'bridge', 'loopback', 'host-local', 'pause'],
];

const systemPrograms =
  'containerd ctr runc podman debootstrap iptables ip jq openssl python3'.split(' ');

/** The Kubernetes of `npm test`, and of `npm run e2e` when no other is named. */
export const versionDefault = '1.34.4';

export const say = (text: string): void =>
  console.log(`[${new Date().toISOString().slice(11, 19)}] ${text}`);

export function binariesFolder(version: string): string {
  return process.env['KUBE_BIN'] ?? join(homedir(), '.cache', 'tsdb-kube', `bin-${version}`);
}

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
};

const onPath = (name: string): boolean =>
  (process.env['PATH'] ?? '').split(delimiter).some((folder) => isExecutable(join(folder, name)));

/**
 * Why Kubernetes cannot be had here without building anything, and how to get it; null when it can.
 */
export function whyNoKubernetes(version: string): string | null {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'it needs root on Linux';
  const folder = binariesFolder(version);
  const missing = [
    ...programs
      .filter((name) => !isExecutable(join(folder, name)))
      .map((name) => join(folder, name)),
    ...systemPrograms.filter((name) => !onPath(name)),
  ];
  if (missing.length === 0) return null;
  return `${missing[0]} is missing: bash test/kube/build.sh ${version} builds and installs what is needed`;
}

export interface Result {
  readonly code: number;
  readonly output: string;
}

/** Runs a program to its end; a limit ends it. Output is stdout and stderr as they came. */
export function run(
  command: string,
  args: readonly string[],
  options: {
    readonly millisMax: number;
    readonly input?: string;
    readonly environment?: Readonly<Record<string, string>>;
    readonly show?: boolean;
  },
): Promise<Result> {
  const { promise, resolve } = Promise.withResolvers<Result>();
  const child = spawn(command, args, {
    env: { ...process.env, ...options.environment },
    timeout: options.millisMax,
    killSignal: 'SIGKILL',
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
      if (options.show === true) process.stdout.write(text);
    });
  }
  child.on('exit', (code, signal) => {
    const ended = signal === null ? '' : `\n${command} was ended after ${options.millisMax} ms`;
    const done = () => resolve({ code: code ?? 1, output: output + ended });
    child.on('close', done);
    // What a script leaves in the background may hold its pipes open for good.
    setTimeout(done, pipeMillisMax).unref();
  });
  child.on('error', (error) => resolve({ code: 1, output: error.message }));
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  return promise;
}

async function script(name: string, args: readonly string[], millisMax: number): Promise<void> {
  const { code, output } = await run('bash', [join(here, name), ...args], { millisMax });
  if (code !== 0) throw new Error(`${name} failed with ${code}:\n${output.slice(-4000)}`);
}

/** One at a time on this machine: the bridge, the ports and the folder are the same for all. */
async function lock(): Promise<() => void> {
  const path = `${home}.lock`;
  const limit = Date.now() + 40 * 60_000;
  for (let told = false; ; told = true) {
    try {
      writeFileSync(path, String(process.pid), { flag: 'wx' });
      return () => rmSync(path, { force: true });
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
    const owner = existsSync(path) ? readFileSync(path, 'utf8') : '';
    if (owner !== '' && !existsSync(`/proc/${owner}`)) {
      rmSync(path, { force: true });
      continue;
    }
    if (Date.now() > limit) throw new Error(`process ${owner} holds ${path}`);
    if (!told) say(`waiting for process ${owner}, which uses the test cluster`);
    await delay(2_000);
  }
}

export interface Kube {
  readonly version: string;
  readonly bin: string;
  /** With which its programs know it. */
  readonly environment: Readonly<Record<string, string>>;
  kubectl(args: readonly string[], input?: string): Promise<Result>;
  /** Output of a call that must succeed. */
  ok(args: readonly string[], input?: string): Promise<string>;
  /** null when it is not there. */
  get(kind: string, name: string, namespace: string): Promise<any>;
  list(kind: string, namespace: string, selector?: string): Promise<any[]>;
  helm(args: readonly string[]): Promise<string>;
  down(): Promise<void>;
}

/** Builds what is missing, starts four nodes and puts the images on them. */
export async function bringUp(version: string, keep: boolean): Promise<Kube> {
  const unlock = await lock();
  try {
    if (whyNoKubernetes(version) !== null) {
      say(`building Kubernetes ${version}`);
      await script('build.sh', [version], 60 * 60_000);
    }
    const kube = kubeOf(version, unlock);
    if (!keep) downWhenInterrupted(kube);
    const running = await kube.kubectl(['version', '-o', 'json']);
    const server = running.code === 0 ? JSON.parse(running.output).serverVersion?.gitVersion : null;
    if (!keep || server !== `v${version}`) {
      const started = Date.now();
      await script('down.sh', [], scriptMillisMax);
      mkdirSync(home, { recursive: true });
      await script('up.sh', ['4', version], scriptMillisMax);
      say(`Kubernetes ${version} is up after ${seconds(started)}`);
    }
    const started = Date.now();
    await script('images.sh', [version], 20 * 60_000);
    say(`images are built and loaded after ${seconds(started)}`);
    return kube;
  } catch (error) {
    unlock();
    throw error;
  }
}

/** What was started would go on without us. */
function downWhenInterrupted(kube: Kube): void {
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => void kube.down().finally(() => process.exit(130)));
  }
}

export const seconds = (startedMillis: number): string =>
  `${((Date.now() - startedMillis) / 1000).toFixed(1)} s`;

function kubeOf(version: string, unlock: () => void): Kube {
  const bin = binariesFolder(version);
  const environment = { KUBECONFIG: join(home, 'admin.conf') };
  const kubectl = (args: readonly string[], input?: string): Promise<Result> =>
    run(join(bin, 'kubectl'), [`--request-timeout=${callMillisMax / 1000}s`, ...args], {
      millisMax: callMillisMax,
      environment,
      ...(input === undefined ? {} : { input }),
    });
  const ok = async (args: readonly string[], input?: string): Promise<string> => {
    const { code, output } = await kubectl(args, input);
    if (code !== 0) throw new Error(`kubectl ${args.join(' ')}: ${output.slice(-2000)}`);
    return output;
  };
  return {
    version,
    bin,
    environment,
    kubectl,
    ok,
    async get(kind, name, namespace) {
      const text = await ok([
        'get',
        kind,
        name,
        '-n',
        namespace,
        '-o',
        'json',
        '--ignore-not-found',
      ]);
      return text.trim() === '' ? null : JSON.parse(text);
    },
    async list(kind, namespace, selector = '') {
      const args = ['get', kind, '-n', namespace, '-o', 'json', '-l', selector];
      return JSON.parse(await ok(args)).items;
    },
    async helm(args) {
      const result = await run(join(bin, 'helm'), args, { millisMax: 120_000, environment });
      if (result.code !== 0)
        throw new Error(`helm ${args.join(' ')}: ${result.output.slice(-2000)}`);
      return result.output;
    },
    async down() {
      await script('down.sh', [], scriptMillisMax);
      unlock();
    },
  };
}

/**
 * Asks until the answer is null ("nothing is missing any more"); what it still waits for is printed
 * when it changes, and is the error after the limit.
 */
export async function waitFor(
  what: string,
  millisMax: number,
  missing: () => Promise<string | null>,
): Promise<void> {
  const started = Date.now();
  let told = '';
  for (;;) {
    let answer: string | null;
    try {
      answer = await missing();
    } catch (error) {
      answer = (error as Error).message;
    }
    if (answer === null) {
      say(`${what}: after ${seconds(started)}`);
      return;
    }
    if (answer !== told) say(`  waiting for ${what}: ${answer.slice(0, 300)}`);
    told = answer;
    if (Date.now() - started > millisMax) {
      throw new Error(`${what}: not after ${millisMax / 1000} s: ${answer}`);
    }
    await delay(500);
  }
}

/** Of an object's status; undefined when it has none of this type. */
export const condition = (object: any, type: string): any =>
  (object?.status?.conditions ?? []).find((one: any) => one.type === type);

/** Everything that tells why, into a folder. */
export async function collectLogs(kube: Kube, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const save = async (name: string, args: readonly string[]) => {
    writeFileSync(join(folder, name), (await kube.kubectl(args)).output);
  };
  await save('all.txt', [
    'get',
    'all,pvc,pv,pdb,cm,tsdbclusters,tsdbnamespaces',
    '-A',
    '-o',
    'wide',
  ]);
  await save('clusters.yaml', ['get', 'tsdbclusters,tsdbnamespaces', '-A', '-o', 'yaml']);
  await save('pods.txt', ['describe', 'pods', '-A']);
  await save('events.txt', ['get', 'events', '-A', '--sort-by=.lastTimestamp']);
  const { code, output } = await kube.kubectl(['get', 'pods', '-A', '-o', 'json']);
  if (code !== 0) return;
  for (const { metadata } of JSON.parse(output).items) {
    const { name, namespace } = metadata;
    await save(`${name}.log`, ['logs', '-n', namespace, name, '--tail=2000']);
    await save(`${name}.previous.log`, ['logs', '-n', namespace, name, '-p', '--tail=2000']);
  }
}
