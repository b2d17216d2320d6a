/** House rules that a machine can hold. A failure says what to write instead. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import {
  circlesOf,
  folderGraph,
  importGraph,
  isMain,
  isTest,
  rooms,
  sourceFiles,
  specifiersOf,
  wayRound,
} from './import_graph.ts';

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

/** At most so many files of a folder are read through by who looks for a place. */
const filesOfFolderMax = 15;

/**
 * Synonyms and abbreviations; docs/GLOSSARY.md has the words. Wire names are exempt where they are
 * spoken.
 */
const bannedWords: readonly { pattern: RegExp; instead: string; except?: readonly string[] }[] = [
  {
    pattern: /\btime-?series\b|\b[tT]imeSeries\b/,
    instead: 'series',
    // The messages of remote write, and a message of Prometheus.
    except: ['engine/write_decoder/', 'coordinator/reads/query_times.ts'],
  },
  {
    pattern: /\bdata points?\b|\bdataPoints?\b/,
    instead: 'row, or sample for what users send',
    // What OTLP calls them: one may be many rows.
    except: ['engine/otlp/', 'coordinator/otlp/'],
  },
  { pattern: /\bmem[tT]ables?\b/, instead: 'head' },
  { pattern: /\bss[tT]ables?\b|\bSSTables?\b/, instead: 'fileset' },
  { pattern: /\bWAL\b|\bwal\b|\bwriteAheadLog\b/, instead: 'commit log', except: ['kv/storage/'] },
  { pattern: /\bdbnode\b/, instead: 'node' },
  { pattern: /\bseriesIndex\b/, instead: 'slot' },
  {
    pattern: /\b(ctx|cfg|idx|cnt|buf|ptr|req|res|fn|cb|utils|helpers?|manager|misc)\b/,
    instead: 'the whole word, or what it is',
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
  '@opentelemetry': ['lib/tracing/open_telemetry.ts'],
  etcd3: ['cluster/kv/etcd.ts'],
  express: ['coordinator/http/server.ts'],
  re2js: ['lib/regexp/regexp.ts'],
  '@prometheus-io/lezer-promql': ['coordinator/promql/parse/parser.ts'],
  '@kubernetes/client-node': ['operator/'],
};

const sources = sourceFiles(root);
const isKernel = (file: string) => /^engine\/\w+\/kernel\//.test(file);
const files = sources.map(({ path }) => path).filter((path) => !isKernel(path));
const textOf = new Map(sources.map(({ path, text }) => [path, text]));
const source = (file: string) => textOf.get(file)!;
const withoutComments = (text: string) =>
  text.replace(/\/\*[\s\S]*?\*\//g, '').replace(/(^|[^:'"`])\/\/.*$/gm, '$1');
const product = sources.filter(({ path }) => !isTest(path) && !isMain(path));
const imports = importGraph(product);

test('rooms import only the rooms that the architecture allows', () => {
  assert.ok(files.length > 20, 'the glob finds the sources');
  assert.deepEqual(Object.keys(mayImport).sort(), [...rooms].sort());
  const wrong: string[] = [];
  for (const file of files) {
    if (isMain(file)) continue;
    const room = file.split('/')[0]!;
    for (const specifier of specifiersOf(source(file))) {
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
    for (const specifier of specifiersOf(source(file))) {
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
    const text = textOf.get(file) ?? readFileSync(join(root, file), 'utf8');
    for (const specifier of specifiersOf(text)) {
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

test('no import goes in a circle, between files or between folders, type-only ones included', () => {
  for (const graph of [imports, folderGraph(imports)]) {
    const ways = circlesOf(graph).map((circle) => wayRound(graph, circle));
    assert.deepEqual(ways, []);
  }
});

test('a folder has at most fifteen product files, and a prefix of three files is a folder', () => {
  const byFolder = Map.groupBy(product, ({ path }) => dirname(path));
  const wrong: string[] = [];
  for (const [folder, inside] of byFolder) {
    if (inside.length > filesOfFolderMax) wrong.push(`${folder} has ${inside.length} files`);
    const names = inside.map(({ path }) => path.slice(folder.length + 1).replace(/\..*$/, ''));
    const byPrefix = Map.groupBy(names, (name) => name.split('_')[0]!);
    for (const group of byPrefix.values()) {
      if (group.length >= 3) wrong.push(`${folder}: ${group.join(', ')}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('a twin is imported by tests only', () => {
  const wrong = product.flatMap(({ path, text }) =>
    specifiersOf(text)
      .filter((specifier) => /_(twin|testing|fakes|fuzz|bench|test)\.ts$/.test(specifier))
      .map((specifier) => `${path} imports ${specifier}`),
  );
  assert.deepEqual(wrong, []);
});

test('words are those of docs/GLOSSARY.md', () => {
  const wrong: string[] = [];
  for (const { path, text } of sources) {
    for (const { pattern, instead, except } of bannedWords) {
      if (except?.some((start) => path.startsWith(start)) === true) continue;
      const found = pattern.exec(text);
      if (found !== null) wrong.push(`${path}: ${JSON.stringify(found[0])}, write ${instead}`);
    }
  }
  assert.deepEqual(wrong, []);
});

test('private members are #private', () => {
  const wrong = sources.filter(({ text }) => /^\s+private (?!constructor\b)/m.test(text));
  assert.deepEqual(
    wrong.map(({ path }) => path),
    [],
  );
});

test('nothing is left to do in comments', () => {
  const marks = new RegExp(`\\b(${['TO', 'DO|FIX', 'ME|X', 'XX'].join('')})\\b`);
  assert.deepEqual(
    files.filter((file) => marks.test(source(file))),
    [],
  );
});
