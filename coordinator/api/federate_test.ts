import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nowSeconds, TestCoordinator } from '../coordinator_testing.ts';

test('federate answers with the newest samples as text, at both paths', async () => {
  await using test = await TestCoordinator.openReady();
  const now = nowSeconds();
  const rows = [
    { tags: { __name__: 'up', job: 'a' }, timestamp: now - 60, value: 0 },
    { tags: { __name__: 'up', job: 'a' }, timestamp: now - 30, value: 1 },
    { tags: { __name__: 'up', job: 'b', instance: 'x:1' }, timestamp: now - 20, value: 0.5 },
    { tags: { __name__: 'up', job: 'gone' }, timestamp: now - 400, value: 1 },
    { tags: { __name__: 'down' }, timestamp: now - 10, value: -1e-7 },
  ];
  assert.equal((await test.post('/api/v1/json/write', rows)).status, 200);
  for (const path of ['/federate', '/prometheus/federate']) {
    const answer = await test.get(`${path}?match[]=up&match[]={__name__=~"down|up"}`);
    assert.equal(
      answer.text,
      `# TYPE down untyped
down{instance=""} -1e-07 ${(now - 10) * 1000}
# TYPE up untyped
up{instance="x:1",job="b"} 0.5 ${(now - 20) * 1000}
up{job="a",instance=""} 1 ${(now - 30) * 1000}
`,
    );
    assert.equal(
      answer.headers['content-type'],
      'text/plain; version=0.0.4; charset=utf-8; escaping=underscores',
    );
  }
  const further = await test.get('/federate?match[]=up&lookback_delta=10m');
  assert.match(further.text, /job="gone"/);
});

test('federate says which selector it cannot read, and to whom it does not listen', async () => {
  await using test = await TestCoordinator.openReady();
  const bad = await test.get('/federate?match[]=up{');
  assert.equal(bad.status, 400);
  assert.match(bad.json.error, /^invalid parameter "match\[\]": 1:/);
  assert.equal((await test.post('/federate', 'match[]=up')).status, 405);
  const limited = await test.get('/federate?match[]=up', { 'TSDB-Limit-Max-Series': 'x' });
  assert.equal(limited.status, 400);
});
