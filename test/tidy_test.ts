/** House rules that a machine can hold. A failure says what to write instead. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';

const root = join(import.meta.dirname, '..');

/** A room missing from a list is a wall; a folder of one may be named alone. */
const mayImport: Record<string, readonly string[]> = {
  lib: [],
  engine: ['lib'],
  cluster: ['lib', 'engine'],
  kv: ['lib'],
  node: ['lib', 'engine', 'cluster'],
  coordinator: ['lib', 'engine', 'cluster'],
  aggregator: ['lib', 'cluster'],
  operator: ['lib', 'cluster'],
  tsdbctl: ['lib', 'cluster', 'engine', 'node/persist'],
};

const banned: readonly { pattern: RegExp; instead: string }[] = [
  { pattern: /\bDate\.now\(|\bnew Date\(\)/, instead: 'env.clock.nowMillis()' },
  { pattern: /\bperformance\.now\(/, instead: 'env.clock.monotonicMillis()' },
  { pattern: /\bMath\.random\(/, instead: 'env.random.fraction()' },
  { pattern: /\bset(Timeout|Interval)\(/, instead: 'env.clock.sleep(), every() or deadline()' },
  { pattern: /\bAbortSignal\.timeout\(/, instead: 'env.clock.deadline()' },
  {
    pattern: /from 'node:(fs|fs\/promises|net|http|https|http2|dgram|tls|timers|timers\/promises)'/,
    instead: 'an interface of lib/env',
  },
];

/** The one file (or folder, with a slash at its end) that knows an npm package. */
const facadeOf: Record<string, readonly string[]> = {
  pino: ['lib/log.ts'],
  'prom-client': ['lib/metrics.ts'],
  yaml: ['lib/config/'],
  zod: ['lib/config/'],
  protobufjs: ['lib/proto/', 'lib/env/proto.ts'],
  '@grpc/grpc-js': ['lib/env/grpc.ts'],
  etcd3: ['cluster/kv/etcd.ts'],
  express: ['coordinator/api/server.ts'],
  re2js: ['lib/regexp/regexp.ts'],
  '@prometheus-io/lezer-promql': ['coordinator/promql/parse/parser.ts'],
  '@kubernetes/client-node': ['operator/'],
};

const files = globSync(`{${Object.keys(mayImport).join(',')}}/**/*.ts`, {
  cwd: root,
  exclude: ['engine/*/kernel/**', 'engine/build/**'],
}).sort();
const isTest = (file: string) => /_(test|testing|fuzz|bench|twin)\.ts$/.test(file);
const isMain = (file: string) => file.endsWith('/main.ts');
const source = (file: string) => readFileSync(join(root, file), 'utf8');
const withoutComments = (text: string) =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`])\/\/.*$/gm, '$1');
const importsOf = (text: string) =>
  [...text.matchAll(/(?:from|import)\s*\(?\s*'([^']+)'/g)].map((match) => match[1]!);

test('rooms import only the rooms that the architecture allows', () => {
  assert.ok(files.length > 20, 'the glob finds the sources');
  const wrong: string[] = [];
  for (const file of files) {
    if (isMain(file)) continue;
    const room = file.split('/')[0]!;
    for (const specifier of importsOf(source(file))) {
      if (specifier.startsWith('#')) {
        const other = specifier.slice(1);
        const allowed = [room, ...mayImport[room]!].some((each) => other.startsWith(`${each}/`));
        if (!allowed && !isTest(file)) wrong.push(`${file} imports ${specifier}`);
      } else if (specifier.startsWith('.')) {
        const target = join(dirname(file), specifier);
        if (target.split('/')[0] !== room) {
          wrong.push(`${file} imports ${specifier}: write #room/file.ts for another room`);
        }
      }
    }
  }
  assert.deepEqual(wrong, []);
});

test('clock, randomness, timers, files and sockets are touched in lib/env and lib/process only', () => {
  const wrong: string[] = [];
  for (const file of files) {
    if (/^lib\/(env|process)\//.test(file) || isMain(file) || isTest(file)) continue;
    const text = withoutComments(source(file));
    for (const { pattern, instead } of banned) {
      const found = pattern.exec(text);
      if (found !== null) wrong.push(`${file}: ${found[0]} is banned here, use ${instead}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('an npm package is known to one facade', () => {
  const wrong: string[] = [];
  for (const file of files) {
    if (isTest(file)) continue;
    for (const specifier of importsOf(source(file))) {
      for (const [name, facades] of Object.entries(facadeOf)) {
        if (specifier !== name && !specifier.startsWith(`${name}/`)) continue;
        if (!facades.some((facade) => file.startsWith(facade))) {
          wrong.push(`${file} imports ${specifier}: use ${facades.join(' or ')}`);
        }
      }
    }
  }
  assert.deepEqual(wrong, []);
});

test('no source file is left that nothing imports', () => {
  const imported = new Set<string>();
  const everything = [...files, ...globSync('test/**/*.ts', { cwd: root })];
  for (const file of everything) {
    const text = source(file);
    for (const specifier of importsOf(text)) {
      if (specifier.startsWith('#')) imported.add(specifier.slice(1));
      else if (specifier.startsWith('.')) imported.add(join(dirname(file), specifier));
    }
    // Workers are named by URL.
    for (const match of text.matchAll(/new URL\('([^']+)', import\.meta\.url\)/g)) {
      imported.add(join(dirname(file), match[1]!));
    }
  }
  const orphans = files.filter(
    (file) => !isTest(file) && !isMain(file) && !file.endsWith('.d.ts') && !imported.has(file),
  );
  assert.deepEqual(orphans, []);
});

test('nothing is left to do in comments', () => {
  const marks = new RegExp(`\\b(${['TO', 'DO|FIX', 'ME|X', 'XX'].join('')})\\b`);
  assert.deepEqual(
    files.filter((file) => marks.test(source(file))),
    [],
  );
});
