import assert from 'node:assert/strict';
import { connect, type Socket } from 'node:net';
import { setTimeout as passes } from 'node:timers/promises';
import { test } from 'node:test';
import { httpRequest } from '#lib/env/http.ts';
import { type TestAnswer, TestCoordinator } from '../coordinator_testing.ts';

const mebibyte = 1 << 20;

/** A query whose answer takes some 18 bytes of memory, and 17 of text, for each of so many values. */
const queryOf = (values: number): string => `query=vector(1)[${values}s:1s]`;

/** What the coordinator counts under that name. */
async function counted(test: TestCoordinator, name: string): Promise<number> {
  const url = `http://127.0.0.1:${test.coordinator.metricsServer.port}/metrics`;
  const request = { method: 'GET', responseBytesMax: mebibyte };
  const { body } = await httpRequest(url, request, AbortSignal.timeout(5_000));
  const line = Buffer.from(body)
    .toString()
    .split('\n')
    .find((each) => each.startsWith(`${name} `));
  assert.ok(line !== undefined, name);
  return Number(line.split(' ')[1]);
}

/** Asks, and never reads the answer. */
function askAndLeave(test: TestCoordinator, query: string): Socket {
  const socket = connect(test.coordinator.api.port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `POST /api/v1/query HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: ${query.length}\r\n\r\n${query}`,
  );
  socket.pause();
  return socket;
}

/** Asks again while the answer is to come later, as clients do. */
async function asked(test: TestCoordinator, query: string): Promise<TestAnswer> {
  for (let attempt = 0; ; attempt++) {
    const answer = await test.post('/api/v1/query', query);
    if (answer.status !== 429 || attempt === 5) return answer;
  }
}

/** @throws when it does not come within half a minute */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  for (let wait = 0; !(await isSo()); wait++) {
    assert.ok(wait < 600);
    await passes(50);
  }
}

// Answers must lie untaken for some seconds before they give way, hence the time that this takes.
test('answers that nobody reads take no more memory than reads may, and give way to who waits', async () => {
  await using test = await TestCoordinator.open('{limits: {maxReadBytesInFlight: 70MiB}}');
  const held = () => counted(test, 'tsdb_coordinator_read_bytes');
  // Large reads have 61 MiB of it: three take 51, and a fourth has no room beside them.
  const left = [1, 2, 3].map(() => askAndLeave(test, queryOf(1_000_000)));
  await until(async () => (await held()) > 45 * mebibyte);
  assert.equal((await test.post('/api/v1/query', 'query=1')).status, 200, 'small ones pass');
  for (const answer of await Promise.all([1, 2].map(() => asked(test, queryOf(1_000_000))))) {
    assert.equal(answer.status, 200, answer.text.slice(0, 1000));
    assert.equal(answer.json.data.result[0].values.length, 1_000_000);
  }
  assert.ok((await counted(test, 'tsdb_coordinator_answers_cut_total')) >= 1);
  assert.ok((await held()) <= 70 * mebibyte);
  for (const socket of left) socket.destroy();
  await until(async () => (await held()) === 0);
});

test('a query that needs more memory than all reads may take is refused for good', async () => {
  await using test = await TestCoordinator.open('{limits: {maxReadBytesInFlight: 16MiB}}');
  const answer = await test.post('/api/v1/query', queryOf(1_000_000));
  assert.equal(answer.status, 400, answer.text);
  assert.match(answer.json.error, /bytes, more than the 14680064 of one.*maxReadBytesInFlight/);
  assert.equal(await counted(test, 'tsdb_coordinator_read_bytes'), 0);
  assert.equal((await test.post('/api/v1/query', queryOf(100_000))).status, 200);
});

test('queries at the same time wait for each other, and get 429 when that lasts', async () => {
  await using test = await TestCoordinator.open('{limits: {maxReadBytesInFlight: 64MiB}}');
  const held: number[] = [];
  const answers = Promise.all(
    Array.from({ length: 12 }, () => test.post('/api/v1/query', queryOf(500_000))),
  );
  let isOver = false;
  const over = answers.then(() => (isOver = true));
  while (!isOver) {
    held.push(await counted(test, 'tsdb_coordinator_read_bytes'));
    await Promise.race([over, passes(20)]);
  }
  const statuses = (await answers).map(({ status }) => status);
  assert.ok(statuses.includes(200), `${statuses}`);
  for (const { status, headers, text } of await answers) {
    if (status === 200) continue;
    assert.equal(status, 429, text);
    assert.equal(headers['retry-after'], '5');
    assert.match(text, /cannot read now: other reads take/);
  }
  assert.ok(Math.max(...held) <= 64 * mebibyte, `${Math.max(...held)}`);
});
