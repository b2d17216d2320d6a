import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { ProcessUsage } from './process_usage.ts';

test('what a name used is that of all its processes', async () => {
  const usage = new ProcessUsage();
  const busy =
    'const end = Date.now() + 200; while (Date.now() < end); console.log(1); setInterval(() => {}, 1000)';
  for (let round = 0; round < 2; round += 1) {
    const child = spawn(process.execPath, ['-e', busy], { stdio: ['ignore', 'pipe', 'ignore'] });
    await once(child.stdout, 'data');
    usage.look('node', child.pid!);
    usage.look('node', child.pid!);
    child.kill('SIGKILL');
    await once(child, 'exit');
    usage.look('node', child.pid!);
  }
  const first = usage.all().get('node')!;
  assert.ok(first.cpuSeconds > 0.1, `${first.cpuSeconds}`);
  assert.ok(first.rssMaxBytes > 10 * 2 ** 20, `${first.rssMaxBytes}`);

  const other = new ProcessUsage();
  other.look('this', process.pid);
  other.look('this', process.pid);
  const before = other.all().get('this')!.cpuSeconds;
  other.look('this', process.ppid);
  assert.ok(other.all().get('this')!.cpuSeconds >= before, 'a process that ended still counts');
});
