/** Brings clients from their registries into a cache, each into a folder of its own. */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { extname, join } from 'node:path';
import type { Client } from './client.ts';

const cache = join(homedir(), '.cache', 'tsdb-clients');
const installMillis = 900_000;

export interface Installed {
  readonly command: string;
  readonly args: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

/** @throws when it cannot be had: the reason is what its installer said */
export function install({ origin, program }: Client): Installed {
  const file = join(import.meta.dirname, 'programs', program);
  if (origin.kind === 'system') {
    for (const name of origin.programs) run('/', 'which', [name], `${name} is not on the PATH`);
    return { command: 'bash', args: [file] };
  }
  const key = createHash('sha256').update(JSON.stringify(origin)).digest('hex').slice(0, 12);
  const folder = join(cache, `${program.replace(/\W/g, '_')}-${key}`);
  const done = join(folder, 'installed');
  const isThere = existsSync(done);
  if (!isThere) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
  }
  const copy = join(folder, `main${extname(program)}`);
  copyFileSync(file, copy);
  const python = join(folder, 'bin', 'python');
  if (!isThere) {
    if (origin.kind === 'pip') {
      run(folder, 'python3', ['-m', 'venv', folder]);
      run(folder, python, ['-m', 'pip', 'install', '--quiet', ...origin.packages]);
    } else if (origin.kind === 'npm') {
      writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}');
      run(folder, 'npm', ['install', '--no-audit', '--no-fund', ...origin.packages]);
    } else {
      const { module, command } = origin;
      const [, version] = module.split('@');
      run(folder, 'go', ['mod', 'init', 'client']);
      if (command === undefined) run(folder, 'go', ['get', module]);
      else {
        const target = ['-tags', command.tags.join(','), '-o', 'bin/', command.package];
        run(folder, 'go', ['get', `${command.package}@${version}`]);
        run(folder, 'go', ['build', ...target]);
      }
    }
    writeFileSync(done, '');
  }
  if (origin.kind === 'pip') return { command: python, args: [copy] };
  if (origin.kind === 'npm') return { command: process.execPath, args: [copy] };
  if (origin.command !== undefined) {
    return { command: 'bash', args: [copy], environment: { PATH: withBin(folder) } };
  }
  run(folder, 'go', ['mod', 'tidy']);
  run(folder, 'go', ['build', '-o', 'client', '.']);
  return { command: join(folder, 'client'), args: [] };
}

const withBin = (folder: string): string => `${join(folder, 'bin')}:${process.env['PATH']}`;

function run(folder: string, command: string, args: readonly string[], reason?: string): void {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd: folder,
    encoding: 'utf8',
    timeout: installMillis,
    // graphite-web goes where its packages are looked for, not below /opt.
    env: { ...process.env, GRAPHITE_NO_PREFIX: 'True' },
  });
  if (status === 0) return;
  const said = `${stdout ?? ''}${stderr ?? ''}`.trim().slice(-1_000);
  throw new Error(reason ?? `${command} ${args.join(' ')}: ${error?.message ?? said}`);
}
