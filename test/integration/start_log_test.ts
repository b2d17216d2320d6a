/** What the log of a start tells a newcomer: the folder of the data, and what is not served. */
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { freePorts } from '../ports.ts';
import { eventually, Program } from './process.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-start-log-'));
let program: Program | null = null;
after(async () => {
  await program?.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

interface Line {
  readonly msg: string;
  readonly [field: string]: unknown;
}

const logLines = (): Line[] =>
  program!
    .log()
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line);

test('a start from a file with only db: names the data folder, why, and the missing coordinator', async () => {
  const [grpc, cluster, json, clusterJson, debug, kv] = await freePorts(6);
  const file = join(folder, 'my.yml');
  writeFileSync(
    file,
    `db:
  listenAddress: 127.0.0.1:${grpc}
  clusterListenAddress: 127.0.0.1:${cluster}
  httpNodeListenAddress: 127.0.0.1:${json}
  httpClusterListenAddress: 127.0.0.1:${clusterJson}
  debugListenAddress: 127.0.0.1:${debug}
  kv: {listenAddress: "127.0.0.1:${kv}"}
`,
  );
  const data = join(folder, 'data');
  program = new Program('node', folder, process.execPath, ['node/main.mjs', '-f', file], {
    TSDB_DATA_DIR_DEFAULT: data,
    TSDB_DATA_DIR: '',
  });
  program.start();
  await eventually('the node has started', async () =>
    logLines().some(({ msg }) => msg === 'started'),
  );
  const named = logLines().find(({ msg }) => msg === 'data folder')!;
  assert.deepEqual([named['folder'], named['from']], [data, 'TSDB_DATA_DIR_DEFAULT']);
  assert.ok(existsSync(join(data, 'tsdb.pid')));
  const missing = logLines().filter(({ msg }) => msg.includes('no section coordinator:'));
  assert.equal(missing.length, 1);
  assert.match(missing[0]!.msg, /no HTTP API on 7201; the line "coordinator: \{\}" adds it/);
});

test('a single node says from where it is reached, and how that is changed', async () => {
  for (const [host, said] of [
    ['127.0.0.1', /^ {2}reached from +this machine alone; TSDB_LISTEN_HOST=0\.0\.0\.0, or/m],
    ['0.0.0.0', /^ {2}reached from +other machines too, and there are no passwords$/m],
  ] as const) {
    const [api, metrics, grpc, cluster, json, clusterJson, debug, kv] = await freePorts(8);
    const file = join(folder, `${host}.yml`);
    writeFileSync(
      file,
      `coordinator:
  listenAddress: ${host}:${api}
  metrics: {prometheus: {listenAddress: "${host}:${metrics}"}}
db:
  listenAddress: ${host}:${grpc}
  clusterListenAddress: ${host}:${cluster}
  httpNodeListenAddress: ${host}:${json}
  httpClusterListenAddress: ${host}:${clusterJson}
  debugListenAddress: 127.0.0.1:${debug}
  kv: {listenAddress: "127.0.0.1:${kv}"}
  filesystem: {filePathPrefix: "${join(folder, host)}"}
`,
    );
    const single = new Program(host, folder, process.execPath, ['node/main.mjs', '-f', file], {
      TSDB_DATA_DIR: '',
      TSDB_LISTEN_HOST: '',
    });
    single.start();
    try {
      await eventually('it greets', async () => single.log().includes('reached from'));
      assert.match(single.log(), said);
    } finally {
      await single.stop('SIGKILL');
    }
  }
});

test('logging.encoding: console gives lines for people', async () => {
  const file = join(folder, 'text.yml');
  // A file is no data folder, so the start ends soon.
  writeFileSync(
    file,
    `db: {logging: {encoding: console}, filesystem: {filePathPrefix: "${file}"}}\n`,
  );
  const text = new Program('text', folder, process.execPath, ['node/main.mjs', '-f', file], {
    TSDB_DATA_DIR: '',
  });
  text.start();
  await eventually('the start has failed', async () => !text.running);
  const line = `INFO  data folder folder=${file} from=db.filesystem.filePathPrefix`;
  await eventually('the line is there', async () => text.log().includes(line));
  assert.match(text.log(), /^\d{4}-\d\d-\d\dT\S+Z INFO {2}data folder /m);
});
