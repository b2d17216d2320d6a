import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { type ConfigKey, configKeySections } from './schema/keys.ts';
import { parseConfig } from './config.ts';

const document = readFileSync(
  new URL('../../docs/CONFIGURATION.md', import.meta.url),
  'utf8',
).replaceAll('\r', '');

/** Text below the heading of a section, up to the next one. */
function sectionText(name: string): string {
  const start = document.indexOf(`\n## \`${name}\`\n`);
  assert.notEqual(start, -1, `docs/CONFIGURATION.md has no section for ${name}`);
  const end = document.indexOf('\n## ', start + 1);
  return document.slice(start, end < 0 ? document.length : end);
}

/** The rows "key | type | default" of a section's table, without links. */
function rowsOf(text: string): string[] {
  const rows = [...text.matchAll(/^\| `([^`]+)` \| (.*?) \| (.*?) ?\| .*\|$/gm)];
  return rows.map(([, path, type, fallback]) =>
    [path, type!.replace(/^\[(\w+)\]\(#\1\)$/, '→ $1'), fallback!.replaceAll('`', '')].join(' | '),
  );
}

/** Keys in the paragraph that begins with a word. */
function listed(text: string, word: string): string[] {
  const paragraph = new RegExp(`^${word}:[^]*?(?=\\n\\n|$(?![^]))`, 'm').exec(text)?.[0] ?? '';
  return [...paragraph.matchAll(/`([^`]+)`/g)].map((match) => match[1]!);
}

const pathsOf = (keys: readonly ConfigKey[], kind: ConfigKey['kind']): string[] =>
  keys.filter((key) => key.kind === kind).map((key) => key.path);

for (const { name, keys } of configKeySections()) {
  test(`docs/CONFIGURATION.md lists every key of ${name} with its type and default`, () => {
    const text = sectionText(name);
    const settings = keys
      .filter((key) => key.kind === 'setting')
      .map(({ path, type, defaultText }) => [path, type, defaultText].join(' | '));
    assert.deepEqual(rowsOf(text).sort(), settings.sort());
    assert.deepEqual(listed(text, 'Without effect').sort(), pathsOf(keys, 'withoutEffect').sort());
    assert.deepEqual(listed(text, 'Refused').sort(), pathsOf(keys, 'refused').sort());
  });
}

test('docs/CONFIGURATION.md has sections for what the schema has and no others', () => {
  const documented = [...document.matchAll(/^## `(\w+)`$/gm)].map((match) => match[1]);
  const sections = configKeySections().map(({ name }) => name);
  assert.deepEqual(new Set(documented), new Set(sections));
  assert.equal(documented.length, sections.length);
});

test('the examples of docs/CONFIGURATION.md are accepted and have settings with an effect', () => {
  const examples = [...document.matchAll(/^```yaml\n([^]*?)^```$/gm)].map((match) => match[1]!);
  assert.equal(examples.length, 3);
  for (const text of examples) {
    const role = text.includes('\ndb:') || text.startsWith('db:') ? 'node' : 'coordinator';
    const config = parseConfig([{ path: 'example', text }], role, { HOST_ID: 'node-1' });
    assert.deepEqual(config.notes, [], text);
  }
});

test('a default in docs/CONFIGURATION.md is what a file with that value means', () => {
  const { db, coordinator } = parseConfig(
    [{ path: 'empty', text: 'db:\ncoordinator:\n' }],
    'node',
    {},
  );
  assert.equal(coordinator!.lookbackMillis, 300_000);
  assert.equal(db!.commitlog.flushBytesMax, 512 * 1024);
  const given = parseConfig(
    [
      {
        path: 'defaults',
        text: 'coordinator: {lookbackDuration: 5m}\ndb: {commitlog: {flushMaxBytes: 512KiB}}\n',
      },
    ],
    'node',
    {},
  );
  assert.deepEqual([given.db, given.coordinator], [db, coordinator]);
});
