// Bundles tsdbctl into dist/tsdbctl: one JavaScript file and the kernels that it loads, for
// machines with Node and nothing else of ours (Node strips no types below node_modules, so a
// package cannot have the sources as its bin).
//
//   node tsdbctl/bundle.mjs [FOLDER]
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from 'esbuild';

const root = join(import.meta.dirname, '..');
const folder = process.argv[2] ?? join(root, 'dist/tsdbctl');
const file = join(folder, 'tsdbctl.mjs');
/** Older ones lack what the readers of files use. */
const nodeMajorMin = 26;

// What runs before all else, with CommonJS packages' way to Node's modules.
const banner = `#!/usr/bin/env node
import { createRequire } from 'node:module';
const require = createRequire(import.meta.url);
if (Number(process.versions.node.split('.')[0]) < ${nodeMajorMin}) {
  console.error('tsdbctl needs Node ${nodeMajorMin} or newer, and this is ' + process.versions.node);
  process.exit(2);
}`;

rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, 'build'), { recursive: true });
await build({
  absWorkingDir: root,
  entryPoints: ['tsdbctl/main.ts'],
  outfile: file,
  bundle: true,
  platform: 'node',
  format: 'esm',
  // Syntax that any Node can parse, so that an old one gets as far as the message.
  target: 'node20',
  banner: { js: banner },
  logLevel: 'warning',
});
// The engine's sources look for its kernels in the folder above theirs, the bundle in its own.
const kernels = new Set();
const bundled = readFileSync(file, 'utf8').replace(/\.\.\/(build\/\w+\.wasm)/g, (_, kernel) => {
  kernels.add(kernel);
  return `./${kernel}`;
});
writeFileSync(file, bundled);
for (const kernel of kernels) cpSync(join(root, 'engine', kernel), join(folder, kernel));
chmodSync(file, 0o755);
