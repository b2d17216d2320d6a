import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { finishedFormatsKey } from '#cluster/kv/keys.ts';
import { MemoryKvStore } from '#cluster/kv/memory.ts';
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { NodeFormats } from './formats.ts';
import { formatLevelNewest, typedRowsFormatLevel } from '#lib/format_level.ts';
import { initPlacement } from '#cluster/placement/algorithm.ts';
import { namespaceOf, writeRows } from './storage/database_testing.ts';
import { readFormatLevel } from './persist/format_level_file.ts';
import { TestCluster } from './cluster_testing.ts';

const { signal } = new AbortController();
const cluster = { environment: 'default_env', zone: 'embedded' };
const key = finishedFormatsKey(cluster);

function put(kv: ReturnType<MemoryKvStore['client']>, text: string) {
  return kv.transact([], [{ kind: 'put', key, value: new TextEncoder().encode(text) }], signal);
}

async function eventually(holds: () => boolean): Promise<void> {
  const giveUp = realEnv.clock.deadline(10_000, signal);
  while (!holds()) await realEnv.clock.sleep(5, giveUp);
}

test('a node that is sent what a level has knows that it is finished, also without the store', async () => {
  await using world = new TestCluster();
  await world.start('a');
  const { database } = world.nodes.get('a')!.runtime;
  assert.equal(database.formats.level(), 1);
  await database.onLaterFormats(2);
  assert.equal(database.formats.level(), 2);
  assert.equal(database.store.keepsRowVersions, true);
  assert.equal(await readFormatLevel(realEnv.disk, world.dataFolder('a')), 2);
});

test('a folder is of the level of typed rows before the first of them is logged', async () => {
  await using world = new TestCluster();
  await world.start('a');
  const placement = initPlacement([world.instance('a')], { numShards: 2, replicaFactor: 1 });
  await world.placements.create(placement, signal);
  await world.addNamespace(namespaceOf('metrics'));
  await world.untilAvailable('a');
  const { database } = world.nodes.get('a')!.runtime;
  const row = { series: { __name__: 'x' }, nanos: realEnv.clock.nowNanos(), value: 1 };
  await writeRows(database, [row]);
  assert.equal(database.formats.level(), 1);
  await writeRows(database, [{ ...row, startNanos: 1n }]);
  assert.equal(database.formats.level(), typedRowsFormatLevel);
  const level = await readFormatLevel(realEnv.disk, world.dataFolder('a'));
  assert.equal(level, typedRowsFormatLevel);
});

test('a node writes the level that its cluster has finished, and its folder remembers it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-formats-'));
  try {
    const kv = new MemoryKvStore({ clock: realEnv.clock }).client();
    const fatal: unknown[] = [];
    let raised = 0;
    const onRaise = () => void (raised += 1);
    const follow = { kv, cluster, onRaise, onFatal: (error: unknown) => fatal.push(error) };
    {
      await using formats = await NodeFormats.open(realEnv, silentLog, folder);
      formats.follow(follow);
      assert.equal(formats.level(), 1, 'nothing is finished yet');
      await put(kv, 'no JSON');
      await put(kv, '{"level":2,"later":true}');
      await eventually(() => formats.level() === 2 && raised === 1);
      assert.deepEqual(JSON.parse(readFileSync(join(folder, 'formats.json'), 'utf8')), {
        level: 2,
      });
      // As in a store that was restored from a backup.
      await put(kv, '{"level":1}');
    }
    {
      await using formats = await NodeFormats.open(realEnv, silentLog, folder);
      assert.equal(formats.level(), 2, 'known before the key-value store is reached');
      formats.follow(follow);
      await put(kv, `{"level":${formatLevelNewest + 1}}`);
      await eventually(() => fatal.length > 0);
      const reason = `writes formats of level ${formatLevelNewest + 1}, and this release reads .* up to ${formatLevelNewest}`;
      assert.match(String(fatal[0]), new RegExp(reason));
      assert.equal(formats.level(), 2);
    }
    assert.equal(fatal.length, 1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('a folder of a level that this release does not read is left as it is', async () => {
  await using cluster = new TestCluster();
  await cluster.start('a');
  await cluster.stop('a');
  const folder = cluster.dataFolder('a');
  const identity = join(folder, 'node_identity.json');
  const before = readFileSync(identity, 'utf8');
  for (const [text, reason] of [
    [
      `{"level":${formatLevelNewest + 1}}`,
      new RegExp(
        `may hold formats of level ${formatLevelNewest + 1}, and this release reads levels up to ${formatLevelNewest}`,
      ),
    ],
    ['{"level":0}', /formats\.json: level is not a whole number from 1: 0/],
    ['{', /cannot read .*formats\.json/],
  ] as const) {
    writeFileSync(join(folder, 'formats.json'), text);
    await assert.rejects(cluster.start('a'), reason);
  }
  assert.equal(readFileSync(identity, 'utf8'), before, 'the start is not counted');
});
