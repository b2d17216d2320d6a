import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseConfig } from '../config.ts';
import { inCluster, parse, problemsOf } from '../config_testing.ts';

test('parseConfig() refuses a tick that no timer can wait for', () => {
  assert.match(
    problemsOf('db: {tick: {minimumInterval: 600h}}\n')[0]!,
    /minimumInterval: .*"600h"/,
  );
});

test('parseConfig() takes the repair settings of M3, and refuses words that are none', () => {
  const repairOf = (text: string) => parse(text).db!.repair;
  assert.deepEqual(repairOf('db: {}'), {
    enabled: true,
    type: 'default',
    strategy: 'default',
    throttleMillis: 90_000,
    checkIntervalMillis: 60_000,
  });
  const given =
    'db: {repair: {enabled: false, type: only_compare, strategy: full_sweep, throttle: 2m, checkInterval: 30s}}';
  assert.deepEqual(repairOf(given), {
    enabled: false,
    type: 'only_compare',
    strategy: 'full_sweep',
    throttleMillis: 120_000,
    checkIntervalMillis: 30_000,
  });
  const [problem] = problemsOf('db:\n  repair: {type: always}\n');
  assert.match(problem!, /db\.repair\.type: .*only_compare.*always/);
  assert.match(problemsOf('db:\n  repair: {checkInterval: 0s}\n')[0]!, /checkInterval/);
});

test('parseConfig() refuses an order of bootstrap that would be ignored, and memory that no store can have', () => {
  assert.deepEqual(problemsOf('db:\n  bootstrap: {mode: prefer_peers}\n  memoryMax: 1024GiB\n'), [
    'file1.yml:2: db.bootstrap.mode: not supported: another order of bootstrap than default: "prefer_peers"',
    'file1.yml:3: db.memoryMax: must be ≥ 8MiB and ≤ 512GiB: "1024GiB"',
  ]);
  const { db } = parse('db: {bootstrap: {mode: default}, memoryMax: 1536MiB}\n');
  assert.equal(db!.memoryBytesMax, 1536 * 2 ** 20);
});

test('parseConfig() lets the environment override data folder and listen host', () => {
  const { db, coordinator } = parse(
    'coordinator: {}\ndb: {filesystem: {filePathPrefix: /a}, listenAddress: "0.0.0.0:9100"}\n',
    { TSDB_DATA_DIR: '/b', TSDB_LISTEN_HOST: '127.0.0.1' },
  );
  assert.equal(db!.dataDirectory, '/b');
  assert.deepEqual(db!.listenAddress, { host: '127.0.0.1', port: 9100 });
  assert.deepEqual(coordinator!.listenAddress, { host: '127.0.0.1', port: 7201 });
});

test('parseConfig() opens the port of profiles by its own setting alone', () => {
  const debug = (text: string, host = '') =>
    parse(`db: {filesystem: {filePathPrefix: /a}, ${text}}\n`, { TSDB_LISTEN_HOST: host }).db!
      .debugListenAddress.host;
  assert.equal(debug(''), '127.0.0.1');
  assert.equal(debug(inCluster), '127.0.0.1');
  assert.equal(debug('', '0.0.0.0'), '127.0.0.1');
  assert.equal(debug('debugListenAddress: "0.0.0.0:9004"'), '0.0.0.0');
  assert.equal(debug('debugListenAddress: "0.0.0.0:9004"', '127.0.0.1'), '0.0.0.0');
});

test('the data folder is that of TSDB_DATA_DIR, else of the file, else of TSDB_DATA_DIR_DEFAULT', () => {
  const folderOf = (file: string, environment: Record<string, string>) => {
    const { db } = parseConfig([{ path: 'x.yml', text: file }], 'node', environment);
    return [db!.dataDirectory, db!.dataDirectoryFrom];
  };
  const named = 'db: {filesystem: {filePathPrefix: /file}}';
  const variables = { TSDB_DATA_DIR: '/variable', TSDB_DATA_DIR_DEFAULT: '/instead' };
  const instead = { TSDB_DATA_DIR_DEFAULT: '/instead' };
  assert.deepEqual(folderOf(named, variables), ['/variable', 'TSDB_DATA_DIR']);
  assert.deepEqual(folderOf(named, instead), ['/file', 'db.filesystem.filePathPrefix']);
  assert.deepEqual(folderOf('db: {}', instead), ['/instead', 'TSDB_DATA_DIR_DEFAULT']);
  assert.deepEqual(folderOf('db: {}', {}), ['/var/lib/tsdb', 'default']);
});
