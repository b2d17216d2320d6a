import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import {
  encodeRemoteWrite,
  encodeRemoteWriteV2,
} from '#engine/write_decoder/remote_write_testing.ts';
import { realEnv } from '#lib/env/real.ts';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** A receiver that answers what it is told to, at last 204. */
class Receiver implements AsyncDisposable {
  readonly received: Received[] = [];
  takesV2 = true;
  readonly #statuses: number[];
  readonly #server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on('data', (part: Buffer) => parts.push(part));
    request.on('end', () => {
      this.received.push({ headers: request.headers, body: Buffer.concat(parts) });
      const status = this.#statuses.shift() ?? 204;
      const written = this.takesV2 ? { 'X-Prometheus-Remote-Write-Samples-Written': '1' } : {};
      if (status > 0) response.writeHead(status, written).end(status < 300 ? '' : 'no\nroom');
    });
  });

  /** @param statuses of its first answers; 0 for none */
  constructor(statuses: readonly number[] = []) {
    this.#statuses = [...statuses];
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => {
      this.#server.listen(0, '127.0.0.1', resolve);
    });
    return this;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/write`;
  }

  async has(count: number): Promise<readonly Received[]> {
    await until(() => this.received.length >= count);
    return this.received;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }
}

async function until(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let attempt = 0; !(await isSo()); attempt++) {
    assert.ok(attempt < 400, 'not in time');
    await realEnv.clock.sleep(25, new AbortController().signal);
  }
}

const path = '/api/v1/compat/remote/write';

function bodyOf(name: string, encode = encodeRemoteWrite): Uint8Array {
  return encode([
    {
      tags: [{ name: '__name__', value: name }],
      samples: [{ timestampMillis: nowSeconds() * 1000, value: 1 }],
    },
  ]);
}

/** @param targets YAML, flow form */
const settings = (targets: readonly string[], more = ''): string =>
  `{writeForwarding: {promRemoteWrite: {retry: {initialBackoff: 20ms, maxRetries: 2}, ${more} targets: [${targets.join(', ')}]}}}`;

async function counted(test: TestCoordinator): Promise<Record<string, number>> {
  const url = `http://127.0.0.1:${test.coordinator.metricsServer.port}/metrics`;
  const text = await (await fetch(url)).text();
  const counts: Record<string, number> = {};
  const line = /^tsdb_coordinator_(forwarded_writes|forwarding_retries)_total\{(.*)\} (\d+)$/gm;
  for (const [, what, labels, count] of text.matchAll(line)) {
    const result = /result="(\w+)"/.exec(labels!)?.[1] ?? what!;
    counts[result] = (counts[result] ?? 0) + Number(count);
  }
  return counts;
}

test('bodies are passed on as they came, with what says how they are meant', async () => {
  await using receiver = await new Receiver().listen();
  const target = `{url: "${receiver.url}", headers: {Authorization: "Bearer x"}}`;
  await using test = await TestCoordinator.openReady(settings([target]));
  const first = bodyOf('first');
  const mappers = '{"tagMappers":[{"write":{"tag":"dc","value":"eu"}}]}';
  const headers = {
    'TSDB-Map-Tags-JSON': mappers,
    'TSDB-Metrics-Type': 'unaggregated',
    'Prometheus-Metric-Type': 'counter',
  };
  assert.equal((await test.post(path, first, headers)).status, 200);
  const second = bodyOf('second', encodeRemoteWriteV2);
  const ofV2 = 'application/x-protobuf;proto=io.prometheus.write.v2.Request';
  assert.equal((await test.post(path, second, { 'Content-Type': ofV2 })).status, 204);
  const [one, two] = await receiver.has(2);
  assert.deepEqual(one!.body, Buffer.from(first));
  assert.deepEqual(two!.body, Buffer.from(second));
  const of = ({ headers: all }: Received, ...names: string[]) => names.map((name) => all[name]);
  assert.deepEqual(
    of(one!, 'content-encoding', 'content-type', 'x-prometheus-remote-write-version'),
    ['snappy', 'application/x-protobuf', '0.1.0'],
  );
  assert.deepEqual(
    of(one!, 'm3-map-tags-json', 'prometheus-metric-type', 'authorization', 'user-agent'),
    [mappers, 'counter', 'Bearer x', 'tsdb/0.0.0'],
  );
  assert.deepEqual(of(two!, 'content-type', 'x-prometheus-remote-write-version'), [ofV2, '2.0.0']);
  assert.deepEqual(
    [one!, two!].map((each) => each.headers['m3-metrics-type']),
    ['unaggregated', undefined],
  );
  await until(async () => (await counted(test))['sent'] === 2);
});

test('a receiver that does not know version 2 has not taken it', async () => {
  await using receiver = await new Receiver().listen();
  receiver.takesV2 = false;
  await using test = await TestCoordinator.openReady(settings([`{url: "${receiver.url}"}`]));
  const headers = { 'Content-Type': 'application/x-protobuf;proto=io.prometheus.write.v2.Request' };
  const body = bodyOf('m', encodeRemoteWriteV2);
  assert.equal((await test.post(path, body, headers)).status, 204);
  assert.equal((await test.post(path, bodyOf('m'))).status, 200);
  await until(async () => {
    const { sent, failed } = await counted(test);
    return sent === 1 && failed === 1;
  });
  assert.equal(receiver.received.length, 2);
});

test('rows that are refused go along with the others, what is no body does not', async () => {
  await using receiver = await new Receiver().listen();
  await using test = await TestCoordinator.openReady(settings([`{url: "${receiver.url}"}`]));
  assert.equal((await test.post(path, Buffer.from('no body'))).status, 400);
  const bad = encodeRemoteWrite([
    { tags: [{ name: 'a b', value: '1' }], samples: [{ timestampMillis: 1, value: 1 }] },
  ]);
  assert.equal((await test.post(path, bad)).status, 400);
  const [only] = await receiver.has(1);
  assert.deepEqual(only!.body, Buffer.from(bad));
});

test('what may pass is tried again, what does not is counted and costs no other target its bodies', async () => {
  await using busy = await new Receiver([503, 429]).listen();
  await using refusing = await new Receiver([400]).listen();
  await using once = await new Receiver([503]).listen();
  const targets = [
    `{url: "${busy.url}"}`,
    `{url: "${refusing.url}"}`,
    `{url: "${once.url}", noRetry: true}`,
  ];
  await using test = await TestCoordinator.openReady(settings(targets));
  assert.equal((await test.post(path, bodyOf('m'))).status, 200);
  await busy.has(3);
  await until(async () => {
    const { sent, failed, forwarding_retries: retries } = await counted(test);
    return sent === 1 && failed === 2 && retries === 2;
  });
  assert.deepEqual([refusing.received.length, once.received.length], [1, 1]);
});

test('nobody waits for a target that does not answer, and other targets get theirs', async () => {
  await using hanging = await new Receiver([0, 0, 0]).listen();
  await using other = await new Receiver().listen();
  const targets = [`{url: "${hanging.url}"}`, `{url: "${other.url}"}`];
  await using test = await TestCoordinator.openReady(settings(targets, 'maxConcurrency: 1,'));
  for (let i = 0; i < 5; i++) assert.equal((await test.post(path, bodyOf(`m${i}`))).status, 200);
  await other.has(5);
  assert.equal(hanging.received.length, 1);
});

test('receivers that pass on to each other end it', async () => {
  await using receiver = await new Receiver().listen();
  await using last = await TestCoordinator.openReady(settings([`{url: "${receiver.url}"}`]));
  const body = bodyOf('m');
  const hops = async (count: string) =>
    assert.equal((await last.post(path, body, { 'TSDB-Forwarding-Hops': count })).status, 200);
  await hops('3');
  const [only] = await receiver.has(1);
  assert.equal(only!.headers['m3-forwarding-hops'], '4');
  for (const count of ['4', '-1', '3, 3']) await hops(count);
  await until(async () => (await counted(last))['dropped'] === 3);
  assert.equal(receiver.received.length, 1);
});
