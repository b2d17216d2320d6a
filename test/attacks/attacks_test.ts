/**
 * Strangers against one real node, a second of each attack. All of them together take a minute: a
 * smaller dose shows nothing, and a process for each would take longer. `campaign_run.ts` goes on
 * for an hour and measures times; here it is work that is bounded, since the machine has other work, too.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { attacks } from './all.ts';
import { Arena } from './arena.ts';
import { runCampaign } from './campaign.ts';
import { openAttacks } from './open.ts';

const seed = Number(process.env['TSDB_TEST_SEED'] ?? 1);
const secondsOfAttack = 0.7;
const settleMillis = 100;

/** While a request of the others is under way, the process does no more than so much for strangers. */
const heldCpuMillisMax = 2000;

/** Left out; who mends what one of them finds takes its line out. */
const open = openAttacks();

const folder = mkdtempSync(join(tmpdir(), 'tsdb-attacks-'));
let arena: Arena;
before(async () => {
  arena = await Arena.open(folder);
});
after(async () => {
  await arena?.close();
  rmSync(folder, { recursive: true, force: true });
});

test('the others are served and the marker is whole while nobody attacks', async () => {
  const { measured, problems } = await arena.alone(0.5);
  assert.deepEqual(problems, []);
  assert.ok(measured.queryMillis.length > 0 && measured.writeMillis.length > 0);
});

test('what is known to hurt is the name of an attack', () => {
  const names = new Set(attacks.map(({ name }) => name));
  assert.deepEqual(
    [...open.keys()].filter((name) => !names.has(name)),
    [],
  );
  assert.equal(names.size, attacks.length, 'each has a name of its own');
});

for (const { name, subject } of attacks) {
  const skip = open.get(name) ?? false;
  test(`${subject}: ${name}`, { timeout: 120_000, skip }, async () => {
    const planned = { name, seed, seconds: secondsOfAttack };
    const { measured, problems, answers } = await arena.attacked([planned], settleMillis);
    assert.deepEqual(problems, [], answers[0]?.answers ?? 'no answers');
    const held = Math.round(measured.heldCpuMillisMax);
    assert.ok(
      held < heldCpuMillisMax,
      `another one's request waited for ${held} ms of work: ${answers[0]?.answers}`,
    );
  });
}

test('a campaign measures the others alone and beside each attack', async () => {
  const told: string[] = [];
  const only = ['names that point here', 'queries of random words'];
  const report = await runCampaign(
    arena,
    { seconds: 4, seed, names: only },
    (line) => told.push(line),
    new AbortController().signal,
  );
  const names = report.judged().map(({ name }) => name);
  // Several at once come when there is time left.
  for (const name of ['all of it', ...only]) assert.ok(names.includes(name), name);
  for (const { query, write } of report.judged()) assert.ok(query.count > 0 && write.count > 0);
  const { lines } = report.told(4);
  assert.deepEqual(
    lines.filter((line) => line.startsWith('PROBLEM')),
    [],
  );
  assert.ok(told.filter((line) => line.startsWith('alone:')).length >= 2);
});

test('all that was acknowledged meanwhile can be read, and the log has no lines of others', async () => {
  assert.deepEqual(await arena.readAllBack(), []);
  assert.deepEqual(arena.victim.foreignLogLines(), []);
});

test('the process ends well', async () => {
  assert.equal(await arena.close(), 0);
});
