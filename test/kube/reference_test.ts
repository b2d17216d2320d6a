import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import {
  definitionNames,
  definitionOf,
  fieldsOf,
  isLeaf,
  reference,
  referencePath,
} from './reference.ts';

test('docs/RESOURCES.md is what the definitions say', () => {
  const text = readFileSync(referencePath, 'utf8');
  assert.equal(text, reference(), 'node test/kube/reference.ts writes it anew');
});

test('each field that a person sets says what it is, and shows a value', () => {
  for (const name of definitionNames) {
    const { spec, status } = definitionOf(name).schema.properties as any;
    for (const { path, schema } of fieldsOf(spec, 'spec')) {
      assert.ok((schema.description ?? '') !== '', `${name} ${path} has a description`);
      if (isLeaf(schema)) assert.notEqual(schema.example, undefined, `${name} ${path}: an example`);
    }
    // What `kubectl explain` shows.
    for (const { path, schema } of fieldsOf(status, 'status'))
      assert.ok((schema.description ?? '') !== '', `${name} ${path} has a description`);
    assert.ok(spec.description !== undefined && status.description !== undefined);
  }
});
