import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

/** Says `ready`, then `asked` at the first request, and does not end by itself. */
const program = `
  import { aborted, stopSignal } from ${JSON.stringify(import.meta.resolve('./stop.ts'))};
  const stop = stopSignal();
  setInterval(() => {}, 60_000);
  console.log('ready');
  await aborted(stop);
  console.log('asked');
`;

test('stopSignal() takes signals of one moment as one, and a later one ends the process', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'exit');
  let errors = '';
  child.stderr.on('data', (bytes: Buffer) => (errors += bytes.toString()));
  await once(child.stdout, 'data');
  const asked = once(child.stdout, 'data');
  child.kill('SIGINT');
  const [text] = (await asked) as [Buffer];
  assert.equal(text.toString(), 'asked\n');
  child.kill('SIGINT');
  child.kill('SIGTERM');
  // Longer than what counts as one request.
  await delay(1_100);
  assert.equal(child.exitCode, null, errors);
  child.kill('SIGINT');
  assert.deepEqual(await ended, [130, null]);
  assert.match(errors, /asked for twice/);
});
