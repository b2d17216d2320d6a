import assert from 'node:assert/strict';
import { test } from 'node:test';
import { filterMatches, parseFilter } from './filter.ts';

function matches(filter: string, tags: Readonly<Record<string, string>>): boolean {
  return filterMatches(parseFilter(filter, 'filter'), new Map(Object.entries(tags)));
}

test('a filter asks for all of its tags', () => {
  assert.equal(matches('app:nginx* env:prod', { app: 'nginx-1', env: 'prod', zone: 'a' }), true);
  assert.equal(matches('app:nginx* env:prod', { app: 'nginx-1', env: 'dev' }), false);
  assert.equal(matches('app:nginx* env:prod', { app: 'nginx-1' }), false);
  assert.equal(matches('', { app: 'nginx' }), true);
});

test('a tag that is not there matches nothing, but for the name of the metric', () => {
  assert.equal(matches('env:!prod', { app: 'nginx' }), false);
  assert.equal(matches('env:!prod', { env: 'dev' }), true);
  assert.equal(matches('__name__:!up', { app: 'nginx' }), true);
  assert.equal(matches('__name__:*', { app: 'nginx' }), true);
});

test('a pattern may have colons', () => {
  assert.equal(matches('instance:10.0.0.1:9090', { instance: '10.0.0.1:9090' }), true);
});

test('filters that mean nothing are refused with field, reason and value', () => {
  const refusals: readonly (readonly [string, RegExp])[] = [
    ['app', /^filter: filter has no ":" between tag and pattern: app$/],
    [':x', /no tag before its ":"/],
    ['app:', /no pattern after its ":"/],
    ['app:a app:b', /a tag twice: app:b$/],
    ['app:**', /^filter: app: pattern has more than one/],
  ];
  for (const [filter, reason] of refusals) {
    assert.throws(() => parseFilter(filter, 'filter'), { code: 'BAD_REQUEST', message: reason });
  }
});
