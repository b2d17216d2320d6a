// The one entry of every npm script. Plain JavaScript for any Node from 20 on: it brings the
// dependencies (Node 26 among them), compiles the kernels, and runs the command with Node 26.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { serverEnvironment, serverFlags } from './lib/process/server_process.mjs';

const usage = `node setup.mjs [COMMAND] [ARGUMENTS]; npm start, npm test and npm run COMMAND are the same
  (none) [--production]   sets up: dependencies, Node 26, kernels; with --production it leaves out, or
                       removes, what only developers need
  start [-f FILE]...   the single node, or what the files say; start --help tells more
  test [FILE]...       format, lint, types and every test; or at once the tests of files, folders
                       and patterns. Options are Node's: test --test-name-pattern=TEXT FILE
  check                format, lint and types alone
  bench, e2e, sim, tsdbctl   each tells more with --help`;
const isProduction = process.argv[2] === '--production';
const [command, ...args] = process.argv.slice(isProduction ? 3 : 2);
const commands = ['start', 'test', 'check', 'bench', 'e2e', 'sim', 'tsdbctl'];
const asksForHelp = (arg) => arg === '--help' || arg === '-h';
if (asksForHelp(command) || (['test', 'check'].includes(command) && args.some(asksForHelp))) {
  console.log(usage);
  process.exit(0);
}
if (command !== undefined && (isProduction || !commands.includes(command))) {
  console.error(`unknown command: ${command}\n\n${usage}`);
  process.exit(2);
}
if (command === 'check' && args.length > 0) {
  console.error(`unknown argument: ${args[0]}\n\n${usage}`);
  process.exit(2);
}

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

const packages = join(root, 'node_modules');
const isInstalled = (name) => existsSync(join(packages, name));
/** The single node and the command line run without what only developers need. */
const isForDevelopers = !isProduction && command !== 'start' && command !== 'tsdbctl';

function installDependencies() {
  const installed = join(packages, '.package-lock.json');
  const lock = join(root, 'package-lock.json');
  const hasDevelopers = isInstalled('typescript');
  const isRight = isProduction ? !hasDevelopers : hasDevelopers || !isForDevelopers;
  const current = existsSync(installed) && statSync(installed).mtimeMs >= statSync(lock).mtimeMs;
  if (!current || !isRight) {
    // Not `npm ci`: it refuses a lock file without the optional packages of platforms that a
    // registry has not.
    const omitted = isProduction || (!isForDevelopers && !hasDevelopers) ? ['--omit=dev'] : [];
    console.log(
      `installing dependencies${omitted.length > 0 ? ', those of developers left out' : ''}`,
    );
    run('npm', ['install', '--no-save', '--loglevel=error', ...omitted], 'npm install');
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
function become(args, environment = env, folder = root) {
  const child = spawn(node, args, { cwd: folder, env: environment, stdio: 'inherit' });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => child.kill(signal));
  }
  child.on('exit', (code, signal) => process.exit(code ?? (signal === null ? 1 : 128)));
}

/** Format, lint and types of everything, side by side; what they find comes one after the other. */
async function check() {
  const checks = [
    ['format (npm run format mends it)', 'biome', ['format', '.']],
    ['lint', 'oxlint', ['--type-aware']],
    ['types', 'tsc', ['-p', '.']],
  ];
  const results = await Promise.all(
    checks.map(async ([what, command, commandArgs]) => {
      const startedMillis = performance.now();
      const child = spawn(command, commandArgs, {
        cwd: root,
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      });
      const parts = [];
      for (const stream of [child.stdout, child.stderr])
        stream.on('data', (part) => parts.push(part));
      const code = await new Promise((resolve) => {
        child.on('close', resolve);
        child.on('error', (error) => {
          parts.push(Buffer.from(`${error.message}\n`));
          resolve(1);
        });
      });
      const seconds = ((performance.now() - startedMillis) / 1000).toFixed(1);
      return { what, code, seconds, output: Buffer.concat(parts) };
    }),
  );
  for (const { what, code, seconds, output } of results) {
    if (code !== 0) process.stdout.write(output);
    console.log(`${code === 0 ? 'good' : 'FAILED'}: ${what}, ${seconds} s`);
  }
  if (results.some(({ code }) => code !== 0)) process.exit(1);
}

/** What the arguments of `npm test -- …` mean: files, folders and patterns; options are Node's. */
function testFiles(args) {
  return args.flatMap((arg) => {
    if (arg.startsWith('-')) return [];
    const path = join(root, arg);
    if (!existsSync(path)) return /[*?{[]/.test(arg) ? [arg] : missing(arg);
    return [statSync(path).isDirectory() ? join(arg, '**/*_test.ts') : arg];
  });
}

function missing(path) {
  console.error(`no such file or folder of tests: ${path}`);
  process.exit(2);
}

async function test(args) {
  const named = testFiles(args);
  // Who names tests works on them and wants their answer now; the checks are for the whole run.
  if (named.length === 0) await check();
  const rooms = '{lib,engine,cluster,kv,node,coordinator,aggregator,operator,tsdbctl,test}';
  become([
    '--test',
    `--test-concurrency=${availableParallelism()}`,
    '--test-timeout=1800000',
    ...args.filter((arg) => arg.startsWith('-')),
    ...(named.length > 0 ? named : [`${rooms}/**/*_test.ts`]),
  ]);
}

/**
 * Compiles the kernels and, for starts, joins the modules of the node: a bundle takes a third less
 * CPU to start. The tools for both are a hundred megabytes that nothing needs afterwards: where
 * they are not installed they come to a folder of their own, which is removed.
 */
async function build() {
  const { buildKernels, kernelsAreCurrent } = await import('./engine/build_kernels.mjs');
  const { bundleIsCurrent, bundleNode } = await import('./node/bundle.mjs');
  const isForStarts = command === undefined || command === 'start';
  const hasKernels = kernelsAreCurrent();
  const needed = [
    ...(hasKernels ? [] : ['assemblyscript']),
    // New kernels may have new types, which are modules of the bundle.
    ...(!isForStarts || (hasKernels && bundleIsCurrent()) ? [] : ['esbuild']),
  ];
  const isThere = needed.every(isInstalled);
  const toolsRoot = isThere ? root : join(root, 'dist/build_tools');
  if (!isThere) installTools(toolsRoot, needed);
  const tools = join(toolsRoot, 'node_modules');
  buildKernels(node, tools);
  if (isForStarts) await bundleNode(undefined, undefined, tools);
  if (!isThere) rmSync(toolsRoot, { recursive: true });
}

function installTools(folder, names) {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const versioned = names.map((name) => `${name}@${lock.packages[`node_modules/${name}`].version}`);
  console.log(`installing ${versioned.join(' and ')} for the time of compiling`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, 'package.json'), '{}');
  const options = ['--prefix', folder, '--no-save', '--no-fund', '--no-audit', '--loglevel=error'];
  run('npm', ['install', ...options, ...versioned], 'npm install of the compilers');
}

installDependencies();
await build();

switch (command) {
  case 'start':
    // Beside the sources, where a newcomer finds them, unless a file names a folder.
    env.TSDB_DATA_DIR_DEFAULT ??= join(root, 'data');
    env.NODE_COMPILE_CACHE ??= join(root, 'node_modules', '.cache', 'tsdb');
    become([...serverFlags, 'node/main.mjs', ...args], { ...serverEnvironment, ...env });
    break;
  case 'check':
    await check();
    break;
  case 'test':
    await test(args);
    break;
  case 'bench':
    become(['--expose-gc', 'test/bench.ts', ...args]);
    break;
  case 'e2e':
    become(['test/kube/e2e.ts', ...args]);
    break;
  case 'tsdbctl':
    // Files that it is given, or makes, are where it was called.
    become(
      [join(root, 'tsdbctl/main.ts'), ...args],
      env,
      (env.npm_lifecycle_event === 'tsdbctl' && env.INIT_CWD) || process.cwd(),
    );
    break;
  case 'sim':
    become(['test/sim/sim.ts', ...args]);
    break;
}
