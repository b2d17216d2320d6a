// Compiles the AssemblyScript kernels to engine/build/<name>.wasm, once for each state of their
// sources, and writes the types of what they export. Plain JavaScript, so that setup.mjs can call it under any Node.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { engineFolder, kernels, kernelSources, writeExports } from './kernel_exports.mjs';

const buildFolder = join(engineFolder, 'build');
const compiler = join(engineFolder, '../node_modules/assemblyscript/bin/asc.js');

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
 * Query workers read a store's memory. Copies into and out of a shared one cost several times as
 * much as into others.
 */
const sharedFlags = ['--sharedMemory', '--enable=threads'];
const unsharedKernels = new Set(['batch', 'write_decoder']);

const flagsOf = (name) => (unsharedKernels.has(name) ? flags : [...flags, ...sharedFlags]);

function sourceHash() {
  const hash = createHash('sha256');
  for (const { name } of kernels()) hash.update(JSON.stringify([name, flagsOf(name)]));
  hash.update(readFileSync(join(engineFolder, '../node_modules/assemblyscript/package.json')));
  for (const file of kernelSources()) {
    hash.update(relative(engineFolder, file));
    hash.update(readFileSync(file));
  }
  return hash.digest('hex');
}

/**
 * Writes the types and compiles what is out of date; prints only when it compiles.
 * @param node the Node binary that runs the compiler
 */
export function buildKernels(node = process.execPath) {
  mkdirSync(buildFolder, { recursive: true });
  writeExports();
  const hash = sourceHash();
  const stampFile = join(buildFolder, 'sources.sha256');
  const entries = kernels();
  const current =
    existsSync(stampFile) &&
    readFileSync(stampFile, 'utf8') === hash &&
    entries.every(({ name }) => existsSync(join(buildFolder, `${name}.wasm`)));
  if (current) return;
  for (const { name, file } of entries) {
    console.log(`compiling kernel ${name}`);
    execFileSync(
      node,
      [compiler, file, '-o', join(buildFolder, `${name}.wasm`), ...flagsOf(name)],
      { stdio: ['ignore', 'inherit', 'inherit'] },
    );
  }
  writeFileSync(stampFile, hash);
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  buildKernels();
}
