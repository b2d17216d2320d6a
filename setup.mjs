// The one entry of every npm script. Plain JavaScript for any Node from 20 on: it brings the
// dependencies (Node 26 among them), compiles the kernels, and runs the command with Node 26.
//
//   node setup.mjs                set up only
//   node setup.mjs start [args]   the single node, or `-f my.yml`
//   node setup.mjs test           format, lint, types, and every test
//   node setup.mjs bench|e2e|sim|tsdbctl [args]
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = dirname(fileURLToPath(import.meta.url));
const bin = join(root, 'node_modules', '.bin');
const node = join(root, 'node_modules', 'node', 'bin', 'node');
const env = { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH ?? ''}` };

/** Runs a command to its end; a failure ends this process with its code. */
function run(command, args, what) {
  const { status, signal, error } = spawnSync(command, args, { cwd: root, env, stdio: 'inherit' });
  if (error !== undefined) {
    console.error(`${what}: ${error.message}`);
    process.exit(1);
  }
  if (status !== 0) {
    console.error(`${what}: failed (${signal ?? `exit code ${status}`})`);
    process.exit(status ?? 1);
  }
}

const versionOf = (command) =>
  spawnSync(command, ['--version'], { encoding: 'utf8' }).stdout?.trim() ?? '';

function installDependencies() {
  const installed = join(root, 'node_modules', '.package-lock.json');
  const lock = join(root, 'package-lock.json');
  const current = existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs;
  if (!current) {
    // Not `npm ci`: it refuses a lock file without the optional packages of platforms that a
    // registry has not.
    console.log('installing dependencies');
    run('npm', ['install', '--no-save', '--loglevel=error'], 'npm install');
  }
  const wanted = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).dependencies.node;
  if (versionOf(node) === `v${wanted}`) return;
  // An npm that runs no install scripts leaves the package `node` without its binary.
  run('npm', ['rebuild', 'node', '--ignore-scripts=false', '--loglevel=error'], 'npm rebuild node');
  if (versionOf(node) !== `v${wanted}`) {
    console.error(`Node ${wanted} from npm does not run on this machine: ${node}`);
    process.exit(1);
  }
}

/**
 * Becomes the command: signals are passed on, its exit code is ours. Ctrl-C of a terminal reaches
 * the command already, which takes both as one request (lib/process/stop.ts).
 */
function become(args) {
  const child = spawn(node, args, { cwd: root, env, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('exit', (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)));
}

function test(args) {
  const rooms = '{lib,engine,cluster,kv,node,coordinator,operator,tsdbctl,test}';
  run('biome', ['format', '.'], 'format (npm run format mends it)');
  run('oxlint', ['--type-aware'], 'lint');
  run('tsc', ['-p', '.'], 'types');
  const patterns = args.length > 0 ? args : [`${rooms}/**/*_test.ts`];
  become(['--test', '--test-concurrency=2', '--test-timeout=1800000', ...patterns]);
}

installDependencies();
const { buildKernels } = await import('./engine/build_kernels.mjs');
buildKernels(node);

/**
 * Starts take a third less CPU from a bundle; it is not needed, and an installation without esbuild
 * makes none.
 */
async function bundleForStarts() {
  if (!existsSync(join(root, 'node_modules', 'esbuild'))) return;
  const { bundleNode } = await import('./node/bundle.mjs');
  await bundleNode();
}

/**
 * As in the Dockerfiles and test/integration/process.ts. Most of what a request leaves is garbage
 * at once: a smaller young generation takes 60 MiB less and no more CPU time. Left to itself V8
 * lets a small heap grow so little at times that it must be marked again as soon as that is done:
 * some 10 or some 140 times in 20 scrapes of a million series, as it happened. A heap that may
 * double is marked 20 times, always.
 */
const serverFlags = ['--max-semi-space-size=4', '--heap-growing-percent=100'];

const [command, ...args] = process.argv.slice(2);
switch (command) {
  case undefined:
    await bundleForStarts();
    break;
  case 'start':
    await bundleForStarts();
    env.NODE_COMPILE_CACHE ??= join(root, 'node_modules', '.cache', 'tsdb');
    become([...serverFlags, 'node/main.mjs', ...args]);
    break;
  case 'test':
    test(args);
    break;
  case 'bench':
    become(['--expose-gc', 'test/bench.ts', ...args]);
    break;
  case 'e2e':
    become(['test/kube/e2e.ts', ...args]);
    break;
  case 'tsdbctl':
    become(['tsdbctl/main.ts', ...args]);
    break;
  case 'sim':
    become(['test/sim/sim.ts', ...args]);
    break;
  default:
    console.error(`unknown command: ${command}`);
    process.exit(2);
}
