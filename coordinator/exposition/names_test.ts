import assert from 'node:assert/strict';
import { test } from 'node:test';
import { escapedName, unescapedName } from './names.ts';

test('names that are no legacy ones are escaped in the three ways of Prometheus', () => {
  const cases: readonly [name: string, underscores: string, dots: string, values: string][] = [
    ['http.status:sum', 'http_status:sum', 'http_dot_status:sum', 'U__http_2e_status:sum'],
    ['label with 😱', 'label_with__', 'label__with____', 'U__label_20_with_20__1f631_'],
    ['1st_try', '_st_try', '__st__try', 'U___31_st__try'],
    ['legacy_name', 'legacy_name', 'legacy_name', 'legacy_name'],
  ];
  for (const [name, underscores, dots, values] of cases) {
    assert.equal(escapedName(name, 'allow-utf-8'), name);
    assert.equal(escapedName(name, 'underscores'), underscores);
    assert.equal(escapedName(name, 'dots'), dots);
    assert.equal(escapedName(name, 'values'), values);
    assert.equal(unescapedName(values), name);
  }
});

test('what "values" cannot have made stays as it is', () => {
  for (const text of [
    'U__ends_',
    'U__no_code_here',
    'U___d800_',
    'U___10ffff_',
    'U__open_2e',
    'U_one_2e_',
    'plain_2e_name',
  ]) {
    assert.equal(unescapedName(text), text);
  }
});
