/** The command from its operands to its exit code, over a folder of M3. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { nowSeconds, TestCoordinator } from '#coordinator/coordinator_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import type { Options } from '../command.ts';
import {
  madeChunk,
  madeLogEntry,
  madeLogInfo,
  type MadeRow,
} from '../sources/m3/folder_testing.ts';
import { importCommands } from './commands.ts';
import { Journal, nothingDone } from './journal.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-import-'));
after(() => rmSync(folder, { recursive: true }));
// Each call listens for the end of its process, and there are many of them in this one.
process.setMaxListeners(100);

const nanosPerSecond = 1_000_000_000n;
const now = BigInt(nowSeconds()) * nanosPerSecond;
const secondsAgo = (seconds: bigint): bigint => now - seconds * nanosPerSecond;

interface Ended {
  readonly code: number;
  readonly text: string;
}

/** Of one folder and one file of state, as it is called again and again. */
function importerOf(name: string, test: TestCoordinator) {
  const m3 = join(folder, name);
  const state = join(folder, `${name}.json`);
  const write = (path: string, bytes: Uint8Array): void => {
    mkdirSync(dirname(join(m3, path)), { recursive: true });
    writeFileSync(join(m3, path), bytes);
  };
  const writeLog = (...rows: readonly MadeRow[]): void =>
    write(
      'commitlogs/commitlog-0-0.db',
      madeChunk(Buffer.concat([madeLogInfo, ...rows.map(madeLogEntry)])),
    );
  const run = async (
    more: Partial<Options> = {},
    given: readonly string[] = [],
  ): Promise<Ended> => {
    const lines: string[] = [];
    const options = {
      coordinator: test.url('/'),
      namespace: 'default',
      from: null,
      to: null,
      rate: null,
      slice: '30m',
      names: '.+',
      parallel: '2',
      state,
      label: [],
      header: [],
      leaveOut: [],
      verify: false,
      dryRun: false,
      skipDamaged: false,
      skipUntagged: false,
      skipUnfinished: false,
      skipDeleted: false,
      ...more,
    } as unknown as Options;
    const print = (line: string): void => void lines.push(line);
    const call = { options, given, operands: ['m3', m3], usage: '', print };
    const code = await importCommands['data import']!.run(call);
    return { code, text: lines.join('\n') };
  };
  return { run, state, write, writeLog };
}

const first = (index: number, more: Partial<MadeRow> = {}): MadeRow => {
  return { index, id: `{a="${index}"}`, nanos: secondsAgo(5n), value: 1, ...more };
};
const dry: Partial<Options> = { dryRun: true };
const plain: Partial<Options> = {};
const verifying: Partial<Options> = { verify: true };
const storedIn = (test: TestCoordinator) =>
  test.node.seriesOf('default').map(({ decoded }) => decoded.map(({ value }) => value).join());

test('what is left out of the source is counted, and is a failure unless it is allowed', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, write, writeLog } = importerOf('left_out', test);
  writeLog(first(1), first(2, { id: 'plain' }));
  write(`data/default/0/fileset-${secondsAgo(3600n)}-0-data.db`, new Uint8Array(4));
  const allowed = { skipUntagged: true, skipUnfinished: true };
  const said =
    /; left out: 1 series whose tags cannot be read \(--skip-untagged allows that\), 1 unfinished filesets \(--skip-unfinished allows that\)$/m;
  const saidAllowed = /; left out: 1 series whose tags cannot be read, 1 unfinished filesets$/m;
  // The second import reads nothing any more, and knows it of the first one.
  for (const kind of [dry, plain, plain, verifying]) {
    const failed = await run(kind);
    assert.equal(failed.code, 1, failed.text);
    assert.match(failed.text, said);
    assert.match(failed.text, /have no tags that can be read|^goes on after 1 parts/m);
    const half = await run({ ...kind, skipUntagged: true });
    assert.equal(half.code, 1, half.text);
    const passed = await run({ ...kind, ...allowed });
    assert.equal(passed.code, 0, passed.text);
    assert.match(passed.text, saidAllowed);
  }
  assert.deepEqual(storedIn(test), ['1']);
});

test('a log that is damaged in its middle ends each kind of call, or is passed over, and is read when it is whole', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, write } = importerOf('damaged', test);
  const chunks = [
    madeChunk(Buffer.concat([madeLogInfo, madeLogEntry(first(1))])),
    madeChunk(madeLogEntry(first(2))),
    madeChunk(madeLogEntry(first(3))),
  ];
  const whole = new Uint8Array(Buffer.concat(chunks));
  const path = 'commitlogs/commitlog-0-0.db';
  const at = chunks[0]!.length + 20;
  write(path, whole.with(at, whole[at]! ^ 1));
  for (const kind of [dry, plain, verifying]) {
    await assert.rejects(run(kind), /commitlog-0-0\.db: it has another checksum of a chunk/);
  }
  for (const kind of [dry, plain, verifying]) {
    const { code, text } = await run({ ...kind, skipDamaged: true });
    assert.equal(code, 1, text);
    assert.match(text, /is left from its damage on: .*it has another checksum of a chunk/);
  }
  assert.deepEqual(storedIn(test), ['1']);
  write(path, whole);
  const { code, text } = await run();
  assert.equal(code, 0, text);
  assert.deepEqual(storedIn(test).toSorted(), ['1', '2', '3']);
});

test('a log that cannot be read is damage, and two calls with one state are told', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, state, writeLog } = importerOf('unreadable', test);
  writeLog(first(1));
  const link = join(folder, 'unreadable', 'commitlogs', 'commitlog-0-1.db');
  symlinkSync(link, link);
  for (const kind of [dry, plain, verifying]) {
    await assert.rejects(run(kind), /cannot read .*commitlog-0-1\.db: ELOOP/);
    const { code, text } = await run({ ...kind, skipDamaged: true });
    assert.equal(code, 1, text);
    assert.match(text, /commitlog-0-1\.db, damaged is left from its damage on: cannot read/);
  }
  assert.deepEqual(storedIn(test), ['1']);
  rmSync(link);
  const journal = new Journal(
    {
      ...realEnv.disk,
      writeFileAtomic: async (path, bytes) => {
        await realEnv.disk.writeFileAtomic(path, bytes);
        await realEnv.disk.rename(`${path}.tmp`, path);
      },
    },
    state,
    { kind: 'm3', source: '', coordinator: '' },
    [],
  );
  await assert.rejects(journal.write(nothingDone), {
    code: 'CONFLICT',
    message: `--state ${state}: another call writes it at the same time: wait for its end, or name another file`,
  });
});

test('what has no end is taken whole, and what is gone from the source is a failure unless it is allowed', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, state, writeLog } = importerOf('gone', test);
  writeLog(first(1), first(2, { nanos: secondsAgo(-600n) }));
  assert.equal((await run()).code, 0);
  assert.deepEqual(storedIn(test).toSorted(), ['1', '2'], 'rows of later than now');
  const waiting = { 'data/default/3/fileset-7-0 of 0011': ['3/7'], 'commitlogs/former': [] };
  const stored = JSON.parse(readFileSync(state, 'utf8')) as object;
  writeFileSync(state, JSON.stringify({ ...stored, waiting }));
  for (const [options, code] of [
    [{}, 1],
    [{}, 1],
    [{ skipDeleted: true }, 0],
  ] as const) {
    const ended = await run(options);
    assert.equal(ended.code, code, ended.text);
    assert.match(ended.text, /^data\/default\/3\/fileset-7-0 of 0011 was deleted by the source/m);
    assert.match(ended.text, /; left out: 1 parts that the source deleted/);
  }
});

test('options that are about another kind of source are refused, and so is a source that is the target', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, writeLog } = importerOf('kinds', test);
  writeLog(first(1));
  await assert.rejects(
    run({ names: 'a.*' }, ['namespace', 'names']),
    /--names is about remote, not about m3/,
  );
  await assert.rejects(run({ slice: '1h' }, ['slice']), /--slice is about remote, not about m3/);
  await assert.rejects(run({ verify: true, dryRun: true }), /--verify and --dry-run: one of them/);
  const secret = test.url('/').replace('//', '//a:b@');
  await assert.rejects(run({ coordinator: secret }), /has a user or a password/);
  for (const more of [plain, dry, verifying]) {
    const away = { ...more, coordinator: 'http://127.0.0.1:1' };
    await assert.rejects(run(away), /no coordinator answers at/);
  }
  assert.deepEqual(storedIn(test), []);
  const remote = {
    options: { coordinator: test.url('/'), label: [], leaveOut: [], header: [] },
    given: [],
    operands: ['remote', test.url('/api/v1/read')],
    usage: '',
    print: () => {},
  } as unknown as Parameters<(typeof importCommands)[string]['run']>[0];
  await assert.rejects(importCommands['data import']!.run(remote), /taken over into itself/);
});

test('the folder of another replica at the same path is taken over with the same state', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, writeLog } = importerOf('replica', test);
  writeLog(first(1));
  assert.equal((await run()).code, 0);
  writeLog(first(2));
  assert.equal((await run()).code, 0);
  assert.deepEqual(storedIn(test).toSorted(), ['1', '2']);
  const { writeCount } = test.node;
  assert.equal((await run()).code, 0);
  assert.equal(test.node.writeCount, writeCount, 'nothing is read twice');
});

test('parts that a state of before names without checksums are read again', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, state, writeLog } = importerOf('former', test);
  writeLog(first(1));
  assert.equal((await run()).code, 0);
  const text = readFileSync(state, 'utf8');
  const former = text.replace(/( of \d+ bytes), [0-9a-f]{8}/, '$1').replace(/,"untagged":0/, '');
  assert.notEqual(former, text);
  writeFileSync(state, former);
  const { writeCount } = test.node;
  const ended = await run();
  assert.equal(ended.code, 0, ended.text);
  assert.ok(test.node.writeCount > writeCount);
});

test('a namespace that is made again while rows come is told by the call itself, and none is not waited for', async () => {
  await using test = await TestCoordinator.openReady();
  const { run, writeLog } = importerOf('remade', test);
  writeLog(first(1));
  const remake = async (): Promise<void> => {
    const path = '/api/v1/services/tsdb/namespace';
    const { status } = await test.send('DELETE', `${path}/default`, undefined);
    assert.equal(status, 200);
    const create = { type: 'local', namespaceName: 'default', retentionTime: '12h' };
    assert.equal((await test.post('/api/v1/database/create', create)).status, 200);
    assert.equal((await test.post(`${path}/ready`, { name: 'default' })).status, 200);
  };
  let isRemade = false;
  const answer = async (
    request: IncomingMessage,
    response: ServerResponse,
    body: Uint8Array,
  ): Promise<void> => {
    const { method = 'GET', url = '/' } = request;
    const headers = Object.fromEntries(
      ['content-type', 'content-encoding'].flatMap((name) => {
        const value = request.headers[name];
        return typeof value === 'string' ? [[name, value] as const] : [];
      }),
    );
    const answered = await test.send(method, url, method === 'GET' ? undefined : body, headers);
    if (method === 'POST' && !isRemade) {
      isRemade = true;
      await remake();
    }
    response.writeHead(answered.status).end(answered.bytes);
  };
  const between = createServer((request, response) => {
    const bytes: Uint8Array[] = [];
    request.on('data', (some: Uint8Array) => bytes.push(some));
    request.on('end', () => void answer(request, response, Buffer.concat(bytes)));
  });
  await new Promise<void>((resolve) => between.listen(0, '127.0.0.1', resolve));
  const { port } = between.address() as AddressInfo;
  const coordinator = `http://127.0.0.1:${port}`;
  const gone = /its rows went into default, deleted since: remove the file/;
  await assert.rejects(run({ coordinator }), gone);
  assert.equal(isRemade, true);
  await assert.rejects(run({ coordinator }), gone);
  between.close();
  await test.send('DELETE', '/api/v1/services/tsdb/namespace/default', undefined);
  await assert.rejects(run(verifying), /nothing to read back: no namespace of samples is READY/);
});
