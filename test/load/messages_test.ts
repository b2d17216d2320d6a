import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { call, NodeServer } from '../integration/process.ts';
import { MessagesLoad } from './messages_load.ts';

test('every message that was acknowledged is there, though the schema changes and the process is killed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tsdb-messages-'));
  const server = await NodeServer.create({ folder });
  using _ = {
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  };
  try {
    await server.start();
    using load = new MessagesLoad(server, { devices: 40, rowsPerDevice: 240 }, Date.now());
    await load.create();
    await load.write(0, 60);
    await load.kill();
    await load.write(60, 100);
    await load.deploy();
    const killed = load.kill();
    await load.write(100, 160, 20);
    await killed;
    await load.deploy();
    await load.write(160, 240);
    assert.equal(await load.check(), 40 * 240);
    const flushed = await call('POST', `http://127.0.0.1:${server.ports.httpNode}/flush`, {});
    assert.equal(flushed.status, 200, flushed.text);
    assert.equal(await load.check(), 40 * 240);
    await load.kill();
    assert.equal(await load.check(), 40 * 240);
    const query = encodeURIComponent('count(count_over_time(telemetry{__field__="pressure"}[1d]))');
    const { json } = await call('GET', `${server.url}/api/v1/query?query=${query}`);
    assert.equal(json.data.result[0].value[1], '40');
    assert.ok(load.retries > 0, 'writes were under way when the process was killed');
  } finally {
    await server.program.stop('SIGKILL');
  }
});
