/**
 * Puts each planted fault into a copy of the product and has the simulator look for it:
 * `node test/sim/cluster/planted/find.ts [--only NAME] [--runs N] [--size N]`. Ends with 1 when one is not found.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { toolOptions } from '../../../command_line.ts';
import { type PlantedFault, plantedFaults } from './planted_faults.ts';

const usage = `node test/sim/cluster/planted/find.ts [options]: does the simulator see flaws that are put into the product?
  --only TEXT   those whose name contains it
  --runs N      random runs after the stories; 30 when not given
  --size N      faults of each; 20 when not given`;

const root = join(import.meta.dirname, '..', '..', '..', '..');
const folders = ['lib', 'engine', 'cluster', 'node', 'kv', 'coordinator', 'test', 'package.json'];

function found(fault: PlantedFault, runs: string, size: string): string | null {
  const copy = mkdtempSync(join(tmpdir(), 'tsdb-planted-'));
  try {
    for (const name of folders) cpSync(join(root, name), join(copy, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const path = join(copy, fault.file);
    const changes = [fault, ...(fault.beside ?? [])];
    const planted = changes.reduce(
      (text, { right, wrong }) => text.replace(right, () => wrong),
      readFileSync(path, 'utf8'),
    );
    writeFileSync(path, planted);
    const of = fault.isOfResolutions === true ? 'resolutions' : 'cluster';
    const script = join(copy, 'test', 'sim', 'cluster', 'planted', 'look.ts');
    const { stdout, stderr } = spawnSync(process.execPath, [script, runs, size, of], {
      cwd: copy,
      encoding: 'utf8',
    });
    const line = stdout.trim().split('\n').at(-1) ?? '';
    if (line === '') throw new Error(`the copy does not run: ${stderr}`);
    return (JSON.parse(line) as { readonly found: string | null }).found;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

const { only, runs, size } = toolOptions(usage, {
  only: { type: 'string', default: '' },
  runs: { type: 'string', default: '30' },
  size: { type: 'string', default: '20' },
});
for (const fault of plantedFaults) {
  if (!fault.name.includes(only)) continue;
  const what = found(fault, runs, size);
  console.log(`${fault.name}: ${what ?? 'NOT FOUND'}`);
  if (what === null) process.exitCode = 1;
}
