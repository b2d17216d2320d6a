import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { CoordinatorClient } from './coordinator_client.ts';
import { LargeAnswers } from './large_answers.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';

const { signal } = new AbortController();

class CountedAnswers extends LargeAnswers {
  entered = 0;

  override enter(call: object): Promise<void> {
    this.entered++;
    return super.enter(call);
  }
}

const largeAnswers = new CountedAnswers(1);
const limits = { numberOfShards: 64, replicationFactor: 3, largeAnswers };
const loop = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

async function eventually(isSo: () => boolean): Promise<void> {
  while (!isSo()) await loop();
}

async function served(
  answer: (response: ServerResponse) => void,
  run: (client: CoordinatorClient, clock: FakeClock, asked: string[]) => Promise<void>,
): Promise<void> {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const clock = new FakeClock();
  try {
    const url = `http://127.0.0.1:${port}`;
    await run(new CoordinatorClient(url, fakeEnv(clock), limits), clock, asked);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test('no placement is null, and what is refused has its code', async () => {
  await served(
    (response) => response.writeHead(404).end('{"error":"no placement"}'),
    async (client, _clock, asked) => {
      assert.equal(await client.placement(signal), null);
      await client.placementDelete(signal);
      await client.namespaceDelete('a/b', signal);
      assert.deepEqual(asked, [
        'GET /api/v1/services/tsdb/placement',
        'DELETE /api/v1/services/tsdb/placement',
        'DELETE /api/v1/services/tsdb/namespace/a%2Fb',
      ]);
    },
  );
  for (const [status, code] of [
    [400, 'BAD_REQUEST'],
    [404, 'NOT_FOUND'],
    [409, 'CONFLICT'],
    [429, 'RESOURCE_EXHAUSTED'],
    [503, 'UNAVAILABLE'],
  ] as const) {
    await served(
      (response) => response.writeHead(status).end('x'),
      (client) => assert.rejects(client.placementAdd([], signal), { code }),
    );
  }
});

for (const [status, body, message] of [
  [
    400,
    '{"status":"error","errorType":"bad_data","error":"retention period must be at least block size 2h0m0s: 1h0m0s"}',
    'retention period must be at least block size 2h0m0s: 1h0m0s',
  ],
  [503, '{"error":"no placement is there yet"}', 'no placement is there yet'],
  // What says nothing by itself stands behind its call.
  [
    404,
    '{"error":"nothing"}',
    'POST /api/v1/services/tsdb/namespace/ready: 404 {"error":"nothing"}',
  ],
  [
    500,
    '{"error":"internal error"}',
    'POST /api/v1/services/tsdb/namespace/ready: 500 {"error":"internal error"}',
  ],
  [502, 'Bad Gateway', 'POST /api/v1/services/tsdb/namespace/ready: 502 Bad Gateway'],
  [403, 'null', 'POST /api/v1/services/tsdb/namespace/ready: 403 null'],
] as const) {
  test(`a refusal is told in the words of the answer, if it has any: ${status}`, async () => {
    await served(
      (response) => response.writeHead(status).end(body),
      async (client) => {
        const error: Error = await client.namespaceReady('n', signal).then(
          () => assert.fail('it is refused'),
          (reason) => reason,
        );
        assert.equal(error.message, message);
        const { message: call } = (error.cause ?? error) as Error;
        assert.ok(call.startsWith(`POST /api/v1/services/tsdb/namespace/ready: ${status}`), call);
      },
    );
  });
}

const placement = {
  instances: {
    'c-a-0': {
      id: 'c-a-0',
      isolationGroup: 'a',
      endpoint: 'c-a-0:9000',
      weight: 100,
      shards: [{ id: 3, state: 'AVAILABLE', sourceId: '' }],
    },
  },
  numShards: 64,
  replicaFactor: 3,
};

test('of an answer is kept what is needed', async () => {
  await served(
    (response) => response.end(JSON.stringify({ placement, version: 7, more: [1] })),
    async (client) => {
      const { weight: _, ...instance } = placement.instances['c-a-0'];
      assert.deepEqual(await client.placement(signal), {
        instances: { 'c-a-0': { ...instance, shards: [{ id: 3, state: 'AVAILABLE' }] } },
        numberOfShards: 64,
        replicationFactor: 3,
        version: 7,
        awaitsApproval: false,
      });
    },
  );
});

const shards = (...one: object[]): object => {
  const instance = { ...placement.instances['c-a-0'], shards: one };
  return { ...placement, instances: { 'c-a-0': instance } };
};
for (const [what, answer] of [
  ['placement', {}],
  ['instances', { placement: { ...placement, instances: [] }, version: 1 }],
  // An array of so many would be the end of the process.
  ['numShards', { placement: { ...placement, numShards: 4e9 }, version: 1 }],
  ['version', { placement }],
  ['state', { placement: shards([]), version: 1 }],
  ['state', { placement: shards({ id: 1, state: 'toString' }), version: 1 }],
  ['id', { placement: shards({ id: 64, state: 'AVAILABLE' }), version: 1 }],
  ['instances', { instances: null }],
] as const) {
  test(`an answer of another shape is no answer: ${what} of ${JSON.stringify(answer).slice(0, 60)}`, async () => {
    await served(
      (response) => response.end(JSON.stringify(answer)),
      async (client) => {
        const message = `the coordinator answers something else: ${what}`;
        const read = 'placement' in answer || what === 'placement' ? 'placement' : 'healths';
        await assert.rejects(client[read](signal), { code: 'UNAVAILABLE', message });
        if (what === 'placement') await assert.rejects(client.registry(signal), /registry/);
      },
    );
  });
}

/** So many bytes of JSON that is an answer to all questions. */
const answerOf = (bytes: number, filler: string): string => {
  const whole = { placement, version: 1, registry: { namespaces: {} }, instances: {} };
  const start = JSON.stringify(whole).slice(0, -1);
  const room = Math.floor((bytes - start.length - 9) / filler.length);
  return `${start},"x":[${filler.repeat(room)}0]}`;
};
const long = '"0123456789abcdef0123456789abcdef",';
const mebibyte = 1024 * 1024;

test('answers have limits, that of a placement by the shards there may be', async () => {
  const asks = ['registry', 'healths', 'placement'] as const;
  for (const [bytes, taken] of [
    [3.9 * mebibyte, asks],
    [4.05 * mebibyte, ['placement']],
    // 64 shards of three copies more.
    [4.2 * mebibyte, []],
  ] as const) {
    await served(
      (response) => response.end(answerOf(bytes, long)),
      async (client) => {
        for (const ask of asks) {
          const isTaken = (taken as readonly string[]).includes(ask);
          const asked = client[ask](signal);
          if (isTaken) assert.ok((await asked) !== null, `${ask} of ${bytes}`);
          else await assert.rejects(asked, /answer is longer than \d+ bytes/, `${ask} of ${bytes}`);
        }
      },
    );
  }
});

test('an answer that would become many times its size is not read', async () => {
  for (const filler of ['{},', '[],', '[{}],']) {
    await served(
      (response) => response.end(answerOf(mebibyte, filler)),
      (client) =>
        assert.rejects(client.registry(signal), {
          code: 'UNAVAILABLE',
          message: 'the coordinator answers with objects without content',
        }),
    );
  }
});

test('one large answer is held after the other, and small ones pass', async () => {
  const held: ServerResponse[] = [];
  const large = answerOf(mebibyte, long);
  await served(
    (response) => {
      // All but the end.
      response.write(large.slice(0, -1));
      held.push(response);
    },
    async (first, clock) => {
      largeAnswers.entered = 0;
      const ended: string[] = [];
      const ask = (name: string, client = first) =>
        client.registry(signal).then(
          () => ended.push(name),
          (error: Error) => ended.push(`${name}: ${error.message.replace(/.*: /, '')}`),
        );
      const asks = [ask('a'), ask('b')];
      await eventually(() => largeAnswers.entered === 2);
      await served(
        (response) => response.end(answerOf(200_000, long)),
        async (small) => void (await ask('small', small)),
      );
      assert.deepEqual(ended, ['small']);
      for (const response of held) response.end(large.slice(-1));
      await Promise.all(asks);
      assert.deepEqual(ended.toSorted(), ['a', 'b', 'small']);
      // One that is given up while it waits, or while it is held, leaves its room to others.
      const late = [ask('c'), ask('d')];
      await eventually(() => largeAnswers.entered === 4);
      await clock.pass(5_000);
      await Promise.all(late);
      assert.deepEqual(ended.slice(3).toSorted(), ['c: no answer in 5 s', 'd: no answer in 5 s']);
      const last = ask('e');
      await eventually(() => largeAnswers.entered === 5);
      held.at(-1)!.end(large.slice(-1));
      await last;
      assert.equal(ended.at(-1), 'e');
    },
  );
});

for (const [seconds, ask] of [
  [5, (client: CoordinatorClient) => client.placement(signal)],
  [15, (client: CoordinatorClient) => client.placementAdd([], signal)],
] as const) {
  test(`a coordinator that says nothing is given up after ${seconds} s, with the call in the message`, async () => {
    await served(
      () => {},
      async (client, clock, asked) => {
        const refused = assert.rejects(ask(client), {
          code: 'UNAVAILABLE',
          message: new RegExp(`(GET|POST) http.*placement: no answer in ${seconds} s`),
        });
        while (asked.length === 0) await clock.pass(0);
        await clock.pass(seconds * 1000);
        await refused;
      },
    );
  });
}
