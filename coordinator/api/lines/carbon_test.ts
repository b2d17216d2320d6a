import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { nowSeconds, TestCoordinator } from '../../coordinator_testing.ts';

const path = '/api/v1/carbon/write';

test('lines of Carbon are taken over HTTP as by its listener, compressed or not', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const lines = (value: number): Buffer =>
    Buffer.from(
      `servers.web1.cpu ${value} ${now - value}\nused;host=a ${value} ${now - value}.5\n`,
    );
  assert.equal((await test.post(path, lines(1))).status, 204);
  const zipped = await test.post(path, gzipSync(lines(2)), { 'content-encoding': 'gzip' });
  assert.equal(zipped.status, 204);
  const found = test.node.seriesOf('default').map(({ decoded, rows }) => {
    const tags = decoded.map(({ name, value }) => `${name}=${value}`).join(' ');
    return [tags, [...rows.keys()].map((nanos) => Number(nanos / 1_000_000n))] as const;
  });
  assert.deepEqual(
    new Map(found),
    new Map([
      ['__g0__=servers __g1__=web1 __g2__=cpu', [(now - 1) * 1000, (now - 2) * 1000]],
      ['__name__=used host=a', [now * 1000 - 500, now * 1000 - 1500]],
    ]),
  );
});

test('bad lines of Carbon are counted and named, and the others written', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const text = `a.b 1 ${now}\na..b 1 ${now}\nno number ${now}\n`;
  const answer = await test.post(path, Buffer.from(text));
  assert.equal(answer.status, 400);
  assert.match(answer.text, /2 of 3 samples were refused, the others were written/);
  assert.equal(test.node.seriesOf('default').length, 1);
  assert.equal((await test.post(path, Buffer.alloc(0))).status, 400);
});
