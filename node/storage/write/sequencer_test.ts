import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { realEnv } from '#lib/env/real.ts';
import { TsdbError } from '#lib/errors.ts';
import { silentLog } from '#lib/log.ts';
import { Commitlog } from '../../persist/commitlog/commitlog.ts';
import { Sequencer, type SequencedWrite } from './sequencer.ts';

const folders: string[] = [];
const commitlogs: Commitlog[] = [];
after(async () => {
  for (const commitlog of commitlogs) await commitlog[Symbol.asyncDispose]();
  for (const folder of folders) rmSync(folder, { recursive: true, force: true });
});

const { signal } = new AbortController();

async function openSequencer(queueBytesMax = 1000, groupBytesMax = 100, clock = realEnv.clock) {
  const groups: string[] = [];
  const store = {
    beginGroup: (group: number) => void groups.push(`begin ${group}`),
    endGroup: (group: number) => void groups.push(`end ${group}`),
  };
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-sequencer-'));
  folders.push(folder);
  const commitlog = await Commitlog.open(realEnv, silentLog, {
    folder,
    incarnation: '00112233445566778899aabbccddeeff',
    boot: 1,
    segmentBytesMax: 1 << 20,
    sync: 'always',
    syncEveryMillis: 1000,
    syncBytesMax: 1 << 20,
  });
  commitlogs.push(commitlog);
  return {
    commitlog,
    sequencer: new Sequencer(commitlog, { queueBytesMax, groupBytesMax }, clock, store),
    groups,
  };
}

function write(name: string, trace: string[], bytes = 10): SequencedWrite<string> {
  return {
    bytes,
    prepare() {
      trace.push(`prepare ${name}`);
      return [];
    },
    record(buffer) {
      buffer.addBatch(buffer.namespaceOrdinal('n', 1), [new TextEncoder().encode(name)]);
      trace.push(`record ${name}`);
    },
    // oxlint-disable-next-line require-yield
    *apply() {
      trace.push(`apply ${name}`);
      return name;
    },
  };
}

test('waiting writes share one sync and are applied in the order of the log', async () => {
  const { commitlog, sequencer } = await openSequencer();
  const trace: string[] = [];
  const names = ['a', 'b', 'c', 'd'];
  const done = await Promise.all(names.map((name) => sequencer.submit(write(name, trace), signal)));
  assert.deepEqual(done, names);
  assert.equal(commitlog.counts.syncs, 1);
  assert.deepEqual(
    trace.filter((line) => line.startsWith('apply')),
    names.map((name) => `apply ${name}`),
  );
  assert.ok(trace.indexOf('record d') < trace.indexOf('apply a'));
});

test('a group is bounded in bytes, and at most two are between their check and their end', async () => {
  const { commitlog, sequencer, groups } = await openSequencer();
  const trace: string[] = [];
  await Promise.all([1, 2, 3].map((i) => sequencer.submit(write(`${i}`, trace, 60), signal)));
  assert.equal(commitlog.counts.syncs, 3);
  assert.deepEqual(groups.slice(0, 3), ['begin 0', 'begin 1', 'end 0']);
  assert.deepEqual(groups.slice(3).sort(), ['begin 0', 'end 0', 'end 1']);
  assert.ok(groups.lastIndexOf('begin 0') < groups.lastIndexOf('end 0'));
  const unwritten: SequencedWrite<string> = {
    ...write('4', trace),
    record() {
      throw new TsdbError('UNAVAILABLE', 'the disk is gone');
    },
  };
  await assert.rejects(sequencer.submit(unwritten, signal), /the disk is gone/);
  assert.deepEqual(groups.slice(6), ['begin 1', 'end 1'], 'what the log refuses is given up');
});

test('an exclusive step sees everything before it applied and nothing after it begun', async () => {
  const { sequencer } = await openSequencer();
  const trace: string[] = [];
  await Promise.all([
    sequencer.submit(write('a', trace), signal),
    sequencer.exclusive(async () => {
      trace.push('step begins');
      await realEnv.clock.sleep(5, signal);
      trace.push('step ends');
    }),
    sequencer.submit(write('b', trace), signal),
  ]);
  assert.deepEqual(trace, [
    'prepare a',
    'record a',
    'apply a',
    'step begins',
    'step ends',
    'prepare b',
    'record b',
    'apply b',
  ]);
});

test('a write that is refused by its check fails alone', async () => {
  const { sequencer } = await openSequencer();
  const trace: string[] = [];
  const bad: SequencedWrite<string> = {
    ...write('bad', trace),
    prepare() {
      throw new TsdbError('BAD_REQUEST', 'cannot read batch: broken');
    },
  };
  const results = await Promise.allSettled([
    sequencer.submit(write('a', trace), signal),
    sequencer.submit(bad, signal),
    sequencer.submit(write('b', trace), signal),
  ]);
  assert.deepEqual(
    results.map((result) => result.status),
    ['fulfilled', 'rejected', 'fulfilled'],
  );
  assert.ok(!trace.includes('record bad'));
});

test('a full queue refuses with RESOURCE_EXHAUSTED and an abandoned write is dropped', async () => {
  const { sequencer } = await openSequencer(100);
  const trace: string[] = [];
  const first = sequencer.submit(write('a', trace, 80), signal);
  await assert.rejects(
    sequencer.submit(write('b', trace, 80), signal),
    (error) => error instanceof TsdbError && error.code === 'RESOURCE_EXHAUSTED',
  );
  const leave = new AbortController();
  const left = sequencer.submit(write('c', trace, 10), leave.signal);
  leave.abort(new TsdbError('CANCELLED', 'gone'));
  await assert.rejects(left, /gone/);
  assert.equal(await first, 'a');
  assert.ok(!trace.includes('prepare c'));
  await sequencer[Symbol.asyncDispose]();
  await assert.rejects(sequencer.submit(write('d', trace), signal), /stopping/);
});

test('a group waits for the writers that were answered with the last one, but not for long', async () => {
  const sleeps: (() => void)[] = [];
  const clock = {
    ...realEnv.clock,
    sleep: () => new Promise<void>((resolve) => void sleeps.push(resolve)),
  };
  const { sequencer } = await openSequencer(1000, 100, clock);
  const trace: string[] = [];
  const submit = (name: string) => sequencer.submit(write(name, trace), signal);
  const first = submit('a');
  // The first segment is still being opened.
  await new Promise((resolve) => setImmediate(resolve));
  const others = ['b', 'c', 'd'].map(submit);
  await first;
  assert.equal(sequencer.counts.groups, 1);
  await Promise.all([...others, submit('a again')]);
  assert.equal(sequencer.counts.groups, 2);
  const slept = sleeps.length;
  const late = submit('late');
  while (sleeps.length === slept) await new Promise((resolve) => setImmediate(resolve));
  sleeps.at(-1)!();
  await late;
  assert.equal(sequencer.counts.groups, 3);
  // A single writer never waits.
  await submit('single');
  await submit('single again');
  assert.equal(sleeps.length, slept + 1);
  assert.equal(sequencer.counts.groups, 5);
});

test('what is prepared in steps lets the loop look at its sockets, and keeps its place', async () => {
  const { sequencer } = await openSequencer();
  const trace: string[] = [];
  const slow: SequencedWrite<string> = {
    ...write('slow', trace),
    *prepare() {
      for (let step = 0; step < 3; step += 1) {
        trace.push(`slow step ${step}`);
        yield;
      }
    },
  };
  const all = [sequencer.submit(slow, signal), sequencer.submit(write('a', trace), signal)];
  await new Promise((resolve) => setImmediate(resolve));
  trace.push('the loop has turned');
  await Promise.all(all);
  const turned = trace.indexOf('the loop has turned');
  assert.ok(turned < trace.indexOf('slow step 2'), trace.join());
  assert.ok(trace.indexOf('slow step 2') < trace.indexOf('prepare a'), trace.join());
  assert.ok(trace.indexOf('apply slow') < trace.indexOf('apply a'), trace.join());
});
