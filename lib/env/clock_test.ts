import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { realEnv } from './real.ts';

const { clock } = realEnv;
const { signal } = new AbortController();

test('a wait that is over already ends at once, a very long one does not, and neither is warned of', async () => {
  const warnings: Error[] = [];
  const note = (warning: Error): void => void warnings.push(warning);
  process.on('warning', note);
  await clock.sleep(-1, signal);
  const over = clock.deadline(-1, signal);
  if (!over.aborted) await once(over, 'abort');
  const long = clock.deadline(2 ** 40, signal);
  const stop = new AbortController();
  const sleeping = clock.sleep(2 ** 40, stop.signal);
  await clock.sleep(50, signal);
  assert.equal(long.aborted, false);
  stop.abort();
  await assert.rejects(sleeping, { name: 'AbortError' });
  process.off('warning', note);
  assert.deepEqual(warnings, []);
});
