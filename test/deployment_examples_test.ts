/** The examples of manifests/systemd and manifests/compose: their syntax, and that they fit. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { parseConfig } from '#lib/config/config.ts';
import { serverEnvironment, serverFlags } from '#lib/process/server_process.mjs';
import { call, NodeServer } from './integration/process.ts';

const root = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(root, path), 'utf8');
const dockerfile = read('node/Dockerfile');

test('the unit of systemd starts the node as the image does, with room for its connections', () => {
  const unit = read('manifests/systemd/tsdb.service');
  const settings = new Map<string, string>();
  for (const line of unit.split('\n')) {
    if (line === '' || line.startsWith('#') || /^\[\w+\]$/.test(line)) continue;
    const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? assert.fail(`no setting: ${line}`);
    settings.set(key!, value!);
  }
  const flags = /ENTRYPOINT \["\/usr\/local\/bin\/node", "(.*)", "\/app\/node\/main.mjs"\]/.exec(
    dockerfile,
  )![1]!;
  assert.equal(
    settings.get('ExecStart'),
    `/opt/tsdb/node_modules/node/bin/node ${flags.split('", "').join(' ')} /opt/tsdb/node/main.mjs -f /etc/tsdb/tsdb.yml`,
  );
  // Where the configuration's default is, for the unit names no folder.
  const { db, coordinator } = parseConfig(
    [{ path: 'single_node.yml', text: read('node/single_node.yml') }],
    'node',
    {},
  );
  assert.equal(db!.dataDirectory, `/var/lib/${settings.get('StateDirectory')}`);
  assert.ok(Number(settings.get('LimitNOFILE')) > coordinator!.connectionsMax);
});

test('images and the unit start their process as tests do', () => {
  const flags = serverFlags.map((flag) => `"${flag}", `).join('');
  const environment = Object.entries(serverEnvironment).map((setting) => setting.join('='));
  for (const room of ['node', 'coordinator', 'aggregator']) {
    const image = read(`${room}/Dockerfile`);
    assert.ok(
      image.includes(`ENTRYPOINT ["/usr/local/bin/node", ${flags}"/app/${room}/main.`),
      room,
    );
    assert.ok(image.includes(`\nENV ${environment.join(' ')}\n`), room);
  }
  assert.ok(
    read('manifests/systemd/tsdb.service').includes(`\nEnvironment=${environment.join(' ')}\n`),
  );
});

const systemdAnalyze = '/usr/bin/systemd-analyze';
test('systemd-analyze verify finds nothing in the unit', {
  skip: !existsSync(systemdAnalyze) && `there is no ${systemdAnalyze}`,
}, () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-unit-'));
  try {
    const file = join(folder, 'tsdb.service');
    // It asks for the program, too.
    const unit = read('manifests/systemd/tsdb.service').replace(
      /^ExecStart=\S+/m,
      `ExecStart=${process.execPath}`,
    );
    writeFileSync(file, unit);
    const { status, stderr } = spawnSync(systemdAnalyze, ['verify', '--man=no', file], {
      encoding: 'utf8',
    });
    const own = stderr.split('\n').filter((line) => line.includes('tsdb.service'));
    assert.deepEqual([status, own], [0, []], stderr);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the example for Compose has the image, paths and endpoints of the product', () => {
  const folder = 'manifests/compose';
  const compose = parse(read(`${folder}/compose.yaml`));
  const { tsdb, database, prometheus } = compose.services;
  assert.match(read('operator/main.ts'), new RegExp(`'${tsdb.image}'`));
  for (const service of Object.values<any>(compose.services)) {
    for (const mount of service.volumes) {
      const [from] = mount.split(':');
      const isThere = from.startsWith('./') ? existsSync(join(root, folder, from)) : true;
      assert.ok(isThere, mount);
    }
  }
  assert.match(dockerfile, /^CMD \["-f", "\/etc\/tsdb\/tsdb\.yml"\]$/m);
  assert.ok(tsdb.volumes.includes('./tsdb.yml:/etc/tsdb/tsdb.yml:ro'));
  const { db, coordinator, notes } = parseConfig(
    [{ path: 'tsdb.yml', text: read(`${folder}/tsdb.yml`) }],
    'node',
    { TSDB_DATA_DIR: /TSDB_DATA_DIR=(\S+)/.exec(dockerfile)![1]! },
  );
  assert.deepEqual(notes, []);
  assert.ok(tsdb.volumes.includes(`data:${db!.dataDirectory}`));
  const api = `tsdb:${coordinator!.listenAddress.port}`;
  assert.ok(database.entrypoint.includes(`http://${api}`));
  const { remote_write, remote_read, scrape_configs } = parse(read(`${folder}/prometheus.yml`));
  assert.equal(remote_write[0].url, `http://${api}/api/v1/compat/remote/write`);
  assert.equal(remote_read[0].url, `http://${api}/api/v1/compat/remote/read`);
  assert.deepEqual(scrape_configs[1].static_configs[0].targets, [
    `tsdb:${coordinator!.metricsListenAddress.port}`,
  ]);
  // The name by which the other services call it.
  assert.deepEqual(coordinator!.allowedHosts, ['tsdb']);
  assert.equal(prometheus.depends_on.database.condition, 'service_completed_successfully');
});

test('create_database.mjs of the example makes a namespace that takes writes, once', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-compose-'));
  const server = await NodeServer.create({ folder });
  try {
    await server.start();
    for (let time = 0; time < 2; time += 1) {
      const { status, stderr } = spawnSync(
        process.execPath,
        [join(root, 'manifests/compose/create_database.mjs'), server.url],
        { encoding: 'utf8' },
      );
      assert.deepEqual([status, stderr], [0, '']);
    }
    const body = { tags: { __name__: 'up' }, timestamp: String(Date.now() / 1000), value: 1 };
    const written = await call('POST', `${server.url}/api/v1/json/write`, body);
    assert.equal(written.status, 200, written.text);
  } finally {
    await server.program.stop('SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  }
});
