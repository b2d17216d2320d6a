/**
 * kill -9 in the middle of remote writes at full speed: every acknowledged sample is there
 * afterwards.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { call, createLocalDatabase, eventually, NodeServer } from './process.ts';
import { remoteWriteBody } from './remote_write_body.ts';

const folder = mkdtempSync(join(tmpdir(), 'tsdb-crash-'));
const server = await NodeServer.create({ folder });
after(async () => {
  await server.program.stop('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

const seriesCount = 200;
const writerCount = 4;

test('five kills in the middle of writes lose nothing that was acknowledged', async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  const begin = Date.now() - 5 * 60_000;
  /** Of each writer, the number of its samples a series that were acknowledged. */
  const acknowledged = new Array<number>(writerCount).fill(0);
  const sent = new Array<number>(writerCount).fill(0);

  for (let round = 0; round < 5; round++) {
    let stopped = false;
    const writer = async (index: number) => {
      while (!stopped) {
        const sample = acknowledged[index]!;
        const body = remoteWriteBody(
          Array.from({ length: seriesCount }, (_, series) => ({
            labels: {
              __name__: 'crash',
              writer: `${index}`,
              series: `${series}`,
              round: `${round}`,
            },
            samples: [{ timestampMillis: begin + sample * 10, value: sample * 1000 + series }],
          })),
        );
        sent[index] = sample + 1;
        try {
          const answer = await call('POST', `${server.url}/api/v1/compat/remote/write`, body);
          if (answer.status === 200) acknowledged[index] = sample + 1;
        } catch {
          return;
        }
      }
    };
    const before = [...acknowledged];
    const writers = Array.from({ length: writerCount }, (_, index) => writer(index));
    await eventually('writes are acknowledged', async () =>
      acknowledged.some((count, index) => count > before[index]!),
    );
    await delay(200 + round * 150);
    await server.program.stop('SIGKILL');
    stopped = true;
    await Promise.all(writers);

    await server.start();
    for (let index = 0; index < writerCount; index++) {
      const selector = `crash{writer="${index}",round="${round}"}`;
      const expected = acknowledged[index]! - before[index]!;
      const answer = await eventually('the node serves again', async () => {
        const got = await call(
          'GET',
          `${server.url}/api/v1/query?query=${encodeURIComponent(`${selector}[2h]`)}`,
        );
        return got.status === 200 ? got : null;
      });
      if (expected === 0) continue;
      assert.equal(answer.json.data.result.length, seriesCount);
      for (const { metric, values } of answer.json.data.result) {
        for (let at = 0; at < expected; at++) {
          const sample = before[index]! + at;
          assert.deepEqual(values[at], [
            (begin + sample * 10) / 1000,
            String(sample * 1000 + Number(metric.series)),
          ]);
        }
        assert.ok(values.length <= sent[index]! - before[index]!);
      }
    }
  }
});
