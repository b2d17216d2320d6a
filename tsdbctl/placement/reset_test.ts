import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resetInstances } from './reset.ts';

const options = { coordinator: 'http://127.0.0.1:7201', instanceIds: ['a', 'c'], force: false };

test('a reset asks the coordinator for all instances at once, and says what stands then', async () => {
  const sent: unknown[] = [];
  const said = await resetInstances(async (_, url, body) => {
    sent.push([url, body]);
    return { status: 200, text: '{"placement":{},"version":9}' };
  }, options);
  assert.match(said, /^placement 9: a, c /);
  assert.deepEqual(sent, [
    [
      'http://127.0.0.1:7201/api/v1/services/tsdb/placement/reset',
      { instance_ids: ['a', 'c'], force: false },
    ],
  ]);
});

test('a refusal is told in the words of the coordinator, and a wrong address as one', async () => {
  const refused = async () => ({ status: 409, text: '{"error":"instance runs"}\n' });
  await assert.rejects(
    resetInstances(refused, options),
    /127\.0\.0\.1:7201 answers 409: instance runs$/,
  );
  const nobody = () =>
    Promise.reject(new TypeError('fetch failed', { cause: new Error('ECONNREFUSED') }));
  await assert.rejects(resetInstances(nobody, options), /no coordinator answers.*ECONNREFUSED/);
  await assert.rejects(
    resetInstances(refused, { ...options, coordinator: 'here' }),
    /not the URL of a coordinator.*here/,
  );
});
