import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from './metrics.ts';

test('counters add up by their labels, and one without labels begins at 0', async () => {
  const metrics = new Metrics();
  metrics.counter('plain_total', 'Without labels.');
  const counter = metrics.counter('requests_total', 'By label.', ['path', 'status']);
  counter.increase(2, { path: '/a', status: '200' });
  counter.increase(1, { path: '/a', status: '400' });
  counter.increase(3, { path: '/a', status: '200' });
  const text = await metrics.text();
  assert.match(text, /^# TYPE requests_total counter$/m);
  assert.match(text, /^plain_total 0$/m);
  assert.match(text, /^requests_total\{path="\/a",status="200"\} 5$/m);
  assert.match(text, /^requests_total\{path="\/a",status="400"\} 1$/m);
  assert.equal(await metrics.text(), text);
});

test('a histogram counts what is at or below each bound', async () => {
  const metrics = new Metrics();
  const histogram = metrics.histogram('seconds', 'Of requests.', ['path'], [1, 2]);
  for (const value of [0.5, 1, 1.5, 7]) histogram.observe(value, { path: 'x' });
  const text = await metrics.text();
  const lines = text.split('\n').filter((line) => line.startsWith('seconds'));
  assert.deepEqual(lines, [
    'seconds_bucket{le="1",path="x"} 2',
    'seconds_bucket{le="2",path="x"} 3',
    'seconds_bucket{le="+Inf",path="x"} 4',
    'seconds_sum{path="x"} 10',
    'seconds_count{path="x"} 4',
  ]);
  assert.match(text, /^# TYPE seconds histogram$/m);
});

test('many that ask at once get one text, made for all of them, and a later one is up to date', async () => {
  const metrics = new Metrics();
  let read = 0;
  metrics.gauge('asked', 'How often it was read.', [], () => ++read);
  const texts = await Promise.all(Array.from({ length: 500 }, () => metrics.text()));
  assert.ok(read <= 2, `${read}`);
  assert.ok(texts.every((text) => /^asked [12]$/m.test(text)));
  const before = read;
  assert.match(await metrics.text(), new RegExp(`^asked ${before + 1}$`, 'm'));
});
