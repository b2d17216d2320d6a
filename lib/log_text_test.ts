import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logText } from './log_text.ts';

const record = (fields: object): string =>
  JSON.stringify({ level: 'info', time: '2026-11-22T10:00:00.000Z', service: 'x', ...fields });

test('logText() gives time, level, message and fields', () => {
  assert.equal(
    logText(
      record({ room: 'node', folder: '/a b', rows: 3, ids: ['a'], empty: '', msg: 'loaded' }),
    ),
    '2026-11-22T10:00:00.000Z INFO  loaded room=node folder="/a b" rows=3 ids=["a"] empty=""\n',
  );
});

test('logText() puts a stack trace on lines of its own', () => {
  const line = logText(
    record({ level: 'error', stack: 'Error: x\n    at f (a.ts:1:2)', msg: 'no' }),
  );
  assert.equal(line, '2026-11-22T10:00:00.000Z ERROR no\n    Error: x\n        at f (a.ts:1:2)\n');
});

test('logText() escapes what would steer a terminal', () => {
  const hostile = '\u001b[2J\u009b1m\n';
  const line = logText(record({ name: hostile, stack: '\u001b[2J', msg: hostile }));
  assert.doesNotMatch(line.replaceAll('\n', ''), /\p{Cc}/u);
  assert.equal(line.split('\n').length, 3);
});
