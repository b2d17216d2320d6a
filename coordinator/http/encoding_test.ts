import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { test } from 'node:test';
import { setTimeout as passes } from 'node:timers/promises';
import * as zlib from 'node:zlib';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';
import { encodingFor } from './encoding.ts';

const hasZstd = typeof zlib.createZstdCompress === 'function';

test('an encoding is chosen by quality, and among equals by ours', () => {
  const best = hasZstd ? 'zstd' : 'gzip';
  const cases: readonly [accepted: string, encoding: string | null][] = [
    ['', null],
    ['gzip', 'gzip'],
    ['x-gzip', 'gzip'],
    ['gzip, deflate, br', 'gzip'],
    ['gzip, deflate, br, zstd', best],
    ['GZIP;q=1.0, zstd;q=0.5', 'gzip'],
    ['gzip;q=0.2,zstd;q=0.3', best],
    ['zstd;q=0, gzip;q=0', null],
    ['*', best],
    ['*;q=0.1, gzip;q=0', hasZstd ? 'zstd' : null],
    ['identity, gzip;q=0.5', null],
    ['identity;q=0.5, gzip', 'gzip'],
    ['identity;q=0, *', best],
    ['snappy', null],
    ['deflate', null],
    ['gzip;q=2', null],
    ['gzip;q=', null],
  ];
  for (const [accepted, encoding] of cases) assert.equal(encodingFor(accepted), encoding, accepted);
});

const decoders: Readonly<Record<string, (bytes: Uint8Array) => Uint8Array>> = {
  gzip: (bytes) => zlib.gunzipSync(bytes),
  ...(hasZstd ? { zstd: (bytes: Uint8Array) => zlib.zstdDecompressSync(bytes) } : {}),
};

test('answers of all lengths come compressed to who asks for it', async () => {
  await using test = await TestCoordinator.openReady();
  for (const values of [1, 200, 20_000, 200_000]) {
    const path = `/api/v1/query?query=vector(1)[${values}s:1s]&time=1000000`;
    const plain = await test.get(path);
    assert.equal(plain.headers['content-encoding'], undefined);
    assert.equal(plain.headers['vary'], 'Accept-Encoding');
    for (const [encoding, decode] of Object.entries(decoders)) {
      const answer = await test.get(path, { 'Accept-Encoding': encoding });
      assert.equal(answer.status, 200);
      assert.equal(answer.headers['vary'], 'Accept-Encoding');
      if (plain.bytes.length <= 16_384) {
        assert.equal(answer.headers['content-encoding'], undefined);
        assert.equal(answer.text, plain.text);
        continue;
      }
      assert.equal(answer.headers['content-encoding'], encoding);
      assert.ok(answer.bytes.length < plain.bytes.length / 2);
      assert.equal(Buffer.from(decode(answer.bytes)).toString(), plain.text);
    }
  }
});

test('what is compressed already, and what has no content, is left as it is', async () => {
  await using test = await TestCoordinator.openReady();
  const row = { tags: { __name__: 'up' }, timestamp: nowSeconds(), value: 1 };
  const written = await test.send('POST', '/api/v1/json/write', JSON.stringify(row), {
    'Accept-Encoding': 'gzip',
  });
  assert.deepEqual([written.status, written.headers['vary']], [200, undefined]);
  const deleted = await test.send('POST', '/api/v1/admin/tsdb/delete_series?match[]=up', '', {
    'Accept-Encoding': 'gzip',
  });
  assert.deepEqual([deleted.status, deleted.text], [204, '']);
  assert.equal(deleted.headers['content-length'], undefined);
});

test('a long answer that nobody reads is held back, compressed or not', async () => {
  await using test = await TestCoordinator.openReady();
  // Random values do not become much shorter: some 18 MB each.
  const query = encodeURIComponent('(vector(1) / (time() % 9973 + 1.1))[1000000s:1s]');
  for (const encoding of ['identity', ...Object.keys(decoders)]) {
    const socket = connect(test.coordinator.api.port, '127.0.0.1');
    socket.on('error', () => {});
    socket.write(
      `GET /api/v1/query?query=${query}&time=5000000 HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: ${encoding}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.once('readable', resolve));
    const before = process.memoryUsage.rss();
    await passes(500);
    const grown = process.memoryUsage.rss() - before;
    socket.destroy();
    assert.ok(grown < 64 << 20, `${encoding}: ${grown}`);
  }
  // The server goes on.
  assert.equal((await test.get('/api/v1/query?query=1')).status, 200);
});
