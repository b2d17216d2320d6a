import assert from 'node:assert/strict';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { CoordinatorClient } from './coordinator_client.ts';
import { FakeClock, fakeEnv } from '../fake_clock_testing.ts';

const { signal } = new AbortController();

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
    await run(new CoordinatorClient(`http://127.0.0.1:${port}`, fakeEnv(clock)), clock, asked);
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
    [409, 'CONFLICT'],
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
