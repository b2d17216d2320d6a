import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { test } from 'node:test';

/** A device that has no room. */
const full = '/dev/full';

test('a disk without room for the log ends no process', { skip: !existsSync(full) }, () => {
  const program = `
    import { openLog, plainLog } from ${JSON.stringify(new URL('log.ts', import.meta.url).href)};
    const log = openLog({ ...plainLog, encoding: 'json' });
    for (let i = 0; i < 5_000; i += 1) log.info({ i, text: 'x'.repeat(1_000) }, 'a line');
    setTimeout(() => process.exit(7), 50);
  `;
  const output = openSync(full, 'w');
  try {
    const args = ['--input-type=module', '-e', program];
    const { status, stderr } = spawnSync(process.execPath, args, {
      stdio: ['ignore', output, 'pipe'],
      encoding: 'utf8',
    });
    assert.equal(status, 7, stderr);
  } finally {
    closeSync(output);
  }
});

test("fields of records have the names of the configuration, as M3's have", () => {
  const program = `
    import { openLog, plainLog } from ${JSON.stringify(new URL('log.ts', import.meta.url).href)};
    const json = { ...plainLog, encoding: 'json' };
    openLog(json, { service: 's' }).info({ a: 1 }, 'one');
    const named = { messageKey: 'm', levelKey: 'l', timeKey: 'ts', hasCapitalLevels: true };
    openLog({ ...json, ...named, time: 'epoch' }).warn({}, 'two');
    openLog({ ...json, time: 'nanos' }).info({}, 'three');
    openLog({ ...json, ...named, encoding: 'console' }).info({ a: 1 }, 'four');
  `;
  const args = ['--input-type=module', '-e', program];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  assert.equal(stderr, '');
  const [one, two, three, four] = stdout.split('\n');
  assert.match(one!, /^\{"level":"info","time":"20\d\d-[^"]+Z","service":"s","a":1,"msg":"one"\}$/);
  assert.match(two!, /^\{"l":"WARN","ts":\d{10}\.\d{3},"m":"two"\}$/);
  assert.match(three!, /"time":\d{19},/);
  assert.match(four!, /^20\d\d-\S+ INFO {2}four a=1$/);
});
