// Compiles the AssemblyScript kernels to engine/build/<name>.wasm, once for each state of their
// sources, and writes the types of what they export. Plain JavaScript, so that setup.mjs can call
// it under any Node.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { engineFolder, kernels, kernelSources, writeExports } from './kernel_exports.mjs';

const buildFolder = join(engineFolder, 'build');
const stampFile = join(buildFolder, 'sources.sha256');
const lockFile = join(engineFolder, '../package-lock.json');

/** The version of the compiler that the lock names: it need not be installed to be known. */
const compilerVersion = () =>
  JSON.parse(readFileSync(lockFile, 'utf8')).packages['node_modules/assemblyscript'].version;

// A kernel's memory comes from outside. 65536 pages are the 4 GiB that 32-bit WebAssembly can
// address.
const flags = [
  '-O3',
  '--converge',
  '--noAssert',
  '--runtime=stub',
  '--importMemory',
  '--initialMemory=16',
  '--maximumMemory=65536',
  '--enable=simd',
  '--enable=bulk-memory',
];

/**
 * What kernels are compiled from: their own sources, and numbers that they share with TypeScript.
 */
const sourceFiles = () => [
  ...kernelSources(),
  ...['codec/layout.ts', 'write_decoder/lines/layout.ts'].map((file) => join(engineFolder, file)),
];

function sourceHash() {
  const hash = createHash('sha256');
  hash.update(JSON.stringify([kernels().map(({ name }) => name), flags]));
  hash.update(compilerVersion());
  for (const file of sourceFiles()) {
    hash.update(relative(engineFolder, file));
    hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

/** Whether what is compiled is of the sources as they are. */
export function kernelsAreCurrent() {
  return (
    existsSync(stampFile) &&
    readFileSync(stampFile, 'utf8') === sourceHash() &&
    kernels().every(({ name }) => existsSync(join(buildFolder, `${name}.wasm`)))
  );
}

/**
 * Writes the types and compiles what is out of date; prints only when it compiles.
 * @param node the Node binary that runs the compiler
 * @param packages the folder in which the compiler is installed
 */
export function buildKernels(
  node = process.execPath,
  packages = join(engineFolder, '../node_modules'),
) {
  writeExports();
  if (kernelsAreCurrent()) return;
  mkdirSync(buildFolder, { recursive: true });
  const compiler = join(packages, 'assemblyscript/bin/asc.js');
  for (const { name, file } of kernels()) {
    console.log(`compiling kernel ${name}`);
    execFileSync(node, [compiler, file, '-o', join(buildFolder, `${name}.wasm`), ...flags], {
      stdio: ['ignore', 'inherit', 'inherit'],
    });
  }
  writeFileSync(stampFile, sourceHash());
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  buildKernels();
}
