import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finishUpgrade, upgradeStatusText } from './upgrade.ts';

const coordinator = 'http://127.0.0.1:7201';
const status = {
  formatLevel: { newest: 2, finished: 1 },
  instances: { a: { reads: 2, writes: 1, readersRead: 2 }, b: { error: 'connection refused' } },
  behind: ['b does not answer (connection refused)'],
};

test('the status of an upgrade names the levels of all instances, and what is in the way', async () => {
  const asked: unknown[] = [];
  const answering = (json: object) => async (method: string, url: string) => {
    asked.push([method, url]);
    return { status: 200, text: JSON.stringify(json) };
  };
  const text = await upgradeStatusText(answering(status), coordinator);
  assert.match(text, /level 1 are written; this release writes level 2 once/);
  assert.match(text, /^ {2}a {2}reads 2, writes 1, its readers read 2$/m);
  assert.match(text, /^in the way:\n {2}b does not answer \(connection refused\)$/m);
  assert.deepEqual(asked, [['GET', `${coordinator}/api/v1/services/tsdb/upgrade`]]);
  const ready = await upgradeStatusText(answering({ ...status, behind: [] }), coordinator);
  assert.match(ready, /run "tsdbctl upgrade finish"/);
  const finished = { ...status, formatLevel: { newest: 2, finished: 2 } };
  assert.match(await upgradeStatusText(answering(finished), coordinator), /is finished/);
  assert.match(
    await finishUpgrade(answering(finished), { coordinator, force: false }),
    /level 2 are written from now/,
  );
  assert.deepEqual(asked.at(-1), ['POST', `${coordinator}/api/v1/services/tsdb/upgrade/finish`]);
});

test('who is in the way of the end of an upgrade is told in the words of the coordinator', async () => {
  const refused = async () => ({ status: 409, text: '{"error":"b does not answer"}' });
  await assert.rejects(
    finishUpgrade(refused, { coordinator, force: false }),
    /409: .*b does not answer/,
  );
});
