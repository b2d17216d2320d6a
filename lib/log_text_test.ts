import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logText, terminalJson, terminalText } from './log_text.ts';

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

const hostileTexts = [
  ['\u001b[2J', '\\u001b[2J'],
  ['\u009b1m', '\\u009b1m'],
  ['\u007f', '\\u007f'],
  ['a\u202eb\u2066c\u200f\u061c', 'a\\u202eb\\u2066c\\u200f\\u061c'],
  ['x\u2028y\u2029', 'x\\u2028y\\u2029'],
] as const;

test('logText() escapes what would steer a terminal', () => {
  for (const [hostile, shown] of hostileTexts) {
    const line = logText(
      record({ name: hostile, [`k${hostile}`]: [hostile], stack: hostile, msg: hostile }),
    );
    assert.doesNotMatch(line.replaceAll('\n', ''), /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
    assert.equal(line.split(shown).length, 6, line);
    assert.equal(line.split('\n').length, 3);
  }
  assert.match(logText(record({ msg: 'a\nb' })), /a\\u000ab/);
  assert.match(logText(record({ city: 'Zürich', msg: 'שלום 🦄' })), /שלום 🦄 city=Zürich/);
});

test('terminalText() keeps lines and tabs, and escapes the rest', () => {
  for (const [hostile, shown] of hostileTexts) {
    assert.equal(terminalText(`a\tb\n${hostile}\r`), `a\tb\n${shown}\\u000d`);
  }
  assert.equal(terminalText('x\ud800'), 'x\\ud800');
});

test('terminalJson() is the same JSON', () => {
  for (const [hostile] of hostileTexts) {
    const line = JSON.stringify({ hostile, [hostile]: 1 });
    const shown = terminalJson(line);
    assert.deepEqual(JSON.parse(shown), JSON.parse(line));
    assert.doesNotMatch(shown, /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/u);
  }
});
