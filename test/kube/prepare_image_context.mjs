// Makes dist/image, the context of the Dockerfiles: the Node binary, the dependencies that run in
// production, the compiled kernels, and the rooms without their tests. The dependencies are made
// anew only when the lock changed.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { bundleNode } from '../../node/bundle.mjs';

const root = join(import.meta.dirname, '../..');
const context = join(root, 'dist/image');
const rooms = [
  'lib',
  'engine',
  'cluster',
  'kv',
  'node',
  'coordinator',
  'aggregator',
  'operator',
  'crds',
];

function dependencies() {
  const stamp = join(context, 'dependencies.sha256');
  const hash = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return;
  rmSync(context, { recursive: true, force: true });
  mkdirSync(join(context, 'bin'), { recursive: true });
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
    cpSync(join(root, file), join(context, file));
  }
  execFileSync('npm', ['install', '--no-save', '--omit=dev', '--loglevel=error'], {
    cwd: context,
    stdio: 'inherit',
  });
  cpSync(join(context, 'node_modules/node/bin/node'), join(context, 'bin/node'));
  rmSync(join(context, 'node_modules/node'), { recursive: true });
  // Types, source maps and documents are half of what npm packages bring.
  execFileSync('find', [
    join(context, 'node_modules'),
    ...['-type', 'f', '(', '-name', '*.d.ts', '-o', '-name', '*.d.mts', '-o', '-name', '*.d.cts'],
    ...['-o', '-name', '*.map', '-o', '-name', '*.md', ')', '-delete'],
  ]);
  writeFileSync(stamp, hash);
}

dependencies();
// Kernels of other sources than those beside them would end each process as it starts.
execFileSync(process.execPath, [join(root, 'engine/build_kernels.mjs')], { stdio: 'inherit' });
for (const room of rooms) {
  rmSync(join(context, room), { recursive: true, force: true });
  cpSync(join(root, room), join(context, room), {
    recursive: true,
    filter: (path) => !/_(test|testing|fuzz|bench)\.ts$|\/engine\/[a-z_]+\/kernel$/.test(path),
  });
}
// The bundle is made of the files beside it, which in an image stay as they are: a start has
// nothing to compare.
const bundle = join(context, 'dist/node');
rmSync(bundle, { recursive: true, force: true });
await bundleNode(bundle, context);
writeFileSync(join(bundle, 'sources.json'), '[]');
mkdirSync(join(context, 'data'), { recursive: true });
// For who looks after a cluster from inside its pods: kubectl exec … -- tsdbctl.
execFileSync(process.execPath, [join(root, 'tsdbctl/bundle.mjs'), join(context, 'dist/tsdbctl')], {
  stdio: 'inherit',
});
writeFileSync(
  join(context, 'bin/tsdbctl'),
  '#!/bin/sh\nexec /usr/local/bin/node /app/dist/tsdbctl/tsdbctl.mjs "$@"\n',
  { mode: 0o755 },
);
