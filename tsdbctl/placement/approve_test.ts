import assert from 'node:assert/strict';
import { test } from 'node:test';
import { approvePlacement } from './approve.ts';

const options = { coordinator: 'http://127.0.0.1:7201', force: false };

test('an approval asks the coordinator, and says which version stands then', async () => {
  const sent: unknown[] = [];
  const said = await approvePlacement(async (_, url, body) => {
    sent.push([url, body]);
    return { status: 200, text: '{"placement":{},"version":12}' };
  }, options);
  assert.match(said, /^placement 12: /);
  const url = 'http://127.0.0.1:7201/api/v1/services/tsdb/placement/approve';
  assert.deepEqual(sent, [[url, { force: false }]]);
});

test('a refusal is told in the words of the coordinator', async () => {
  const refused = async () => ({ status: 409, text: '{"error":"not told by: c"}\n' });
  await assert.rejects(approvePlacement(refused, options), /409: not told by: c$/);
});
