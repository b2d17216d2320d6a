// What the kernels export, as TypeScript: one generated and committed file a kernel,
// engine/<part>/<name>_exports.ts, from the exported functions and constants of its entry and the
// comments above them. Plain JavaScript, for build_kernels.mjs.
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';

export const engineFolder = dirname(fileURLToPath(import.meta.url));

/** The files of engine/<part>/kernel and of folders in it, sorted. */
export const kernelSources = () =>
  readdirSync(engineFolder, { withFileTypes: true })
    .map((entry) => join(engineFolder, entry.name, 'kernel'))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) =>
      readdirSync(folder, { recursive: true })
        .filter((file) => file.endsWith('.ts'))
        .map((file) => join(folder, file)),
    )
    .sort();

const entrySuffix = '.kernel.ts';
/** Names of the kernels and their entry files: every `engine/<part>/kernel/<name>.kernel.ts`. */
export const kernels = () =>
  kernelSources()
    .filter((file) => file.endsWith(entrySuffix))
    .map((file) => ({ name: basename(file, entrySuffix), file }));

/** Numbers as a call of WebAssembly takes and gives them. */
const typeOf = {
  bool: 'number',
  i32: 'number',
  u32: 'number',
  isize: 'number',
  usize: 'number',
  f32: 'number',
  f64: 'number',
  i64: 'bigint',
  u64: 'bigint',
  void: 'void',
};

function hostType(type, name) {
  const host = typeOf[type];
  if (host === undefined) throw new Error(`cannot type export ${name}: it has a ${type}`);
  return host;
}

// A comment, whose text holds no end of one, and what is exported below it.
const comment = String.raw`(?:\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\n)?`;
const functionForm = new RegExp(
  String.raw`^${comment}export function (\w+)\(([^)]*)\): (\w+) \{`,
  'gm',
);
const constantForm = new RegExp(String.raw`^${comment}export const (\w+): (\w+) =`, 'gm');
const listForm = /^export \{([^}]*)\} from '([^']+)';/gm;
const anyExport = /^export (?!\{)(?:@inline )?(\w+) (\w+)/gm;

/** Parameters of a function, without the defaults that the host never leaves out. */
function parametersOf(text) {
  return text
    .split(',')
    .map((parameter) => parameter.trim())
    .filter((parameter) => parameter !== '')
    .map((parameter) => {
      const [, name, type] = /^(\w+): (\w+)(?: = .*)?$/s.exec(parameter) ?? [];
      return { name, type };
    });
}

/** Exports of one source, by name, with AssemblyScript's types. */
function exportsOfSource(file) {
  const text = readFileSync(file, 'utf8');
  const found = [];
  for (const [, doc, name, parameters, type] of text.matchAll(functionForm)) {
    found.push({ kind: 'function', name, doc, parameters: parametersOf(parameters), type });
  }
  for (const [, doc, name, type] of text.matchAll(constantForm)) {
    found.push({ kind: 'constant', name, doc, parameters: [], type });
  }
  return { text, found };
}

/** The export with the host's types. */
const typed = (one) => ({
  ...one,
  parameters: one.parameters.map(({ name, type }) => ({ name, type: hostType(type, one.name) })),
  type: hostType(one.type, one.name),
});

/**
 * The exports of a kernel's entry: constants first, then functions, each sort by name.
 * @param file the entry
 */
export function exportsOf(file) {
  const { text, found } = exportsOfSource(file);
  for (const [, kind, name] of text.matchAll(anyExport)) {
    if (!found.some((one) => one.name === name)) {
      throw new Error(`cannot type export ${name} of ${relative(engineFolder, file)}: ${kind}`);
    }
  }
  for (const [, list, path] of text.matchAll(listForm)) {
    const source = exportsOfSource(join(dirname(file), `${path}.ts`)).found;
    for (const name of list.split(',').map((part) => part.trim())) {
      if (name === '') continue;
      const passedOn = source.find((one) => one.name === name);
      if (passedOn === undefined)
        throw new Error(`cannot type export ${name}: it is not in ${path}`);
      found.push(passedOn);
    }
  }
  return found.map(typed).sort((a, b) => compare(a.kind, b.kind) || compare(a.name, b.name));
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

const lineWidth = 100;

/** A comment as lines, wrapped for where it stands; tags begin a line of their own. */
function commentLines(doc) {
  if (doc === undefined) return [];
  const paragraphs = [''];
  for (const line of doc.split('\n').map((part) => part.replace(/^\s*\*? ?/, '').trim())) {
    if (line === '' || line.startsWith('@')) paragraphs.push(line);
    else paragraphs.push(`${paragraphs.pop()} ${line}`.trim());
  }
  const texts = paragraphs.filter((text) => text !== '');
  if (texts.length === 1 && `  /** ${texts[0]} */`.length <= lineWidth) {
    return [`  /** ${texts[0]} */`];
  }
  const lines = texts.flatMap((text) => wrapped(text, lineWidth - '   * '.length));
  return ['  /**', ...lines.map((line) => `   * ${line}`), '   */'];
}

function wrapped(text, width) {
  const lines = [''];
  for (const word of text.split(/\s+/)) {
    const line = lines.pop();
    if (line === '') lines.push(word);
    else if (line.length + 1 + word.length <= width) lines.push(`${line} ${word}`);
    else lines.push(line, word);
  }
  return lines;
}

function memberLines({ kind, name, parameters, type }) {
  if (kind === 'constant') return [`  readonly ${name}: { readonly value: ${type} };`];
  const list = parameters.map((parameter) => `${parameter.name}: ${parameter.type}`);
  const short = `  ${name}(${list.join(', ')}): ${type};`;
  if (short.length <= lineWidth) return [short];
  return [`  ${name}(`, ...list.map((one) => `    ${one},`), `  ): ${type};`];
}

/** `write_decoder` is `WriteDecoderExports`. */
function interfaceName(name) {
  const words = name.split('_').map((word) => word[0].toUpperCase() + word.slice(1));
  return `${words.join('')}Exports`;
}

/** The file of a kernel's types, and what stands in it. */
export function exportsFileOf({ name, file }) {
  const from = `engine/${relative(engineFolder, file)}`;
  const members = exportsOf(file).flatMap((one) => [...commentLines(one.doc), ...memberLines(one)]);
  const lines = [
    `// Written by engine/build_kernels.mjs from ${from}`,
    '',
    '/**',
    ' * What the kernel exports. Addresses, lengths and counts are numbers below 2^32, of which those of',
    ' * 2^31 and more come back negative.',
    ' */',
    `export interface ${interfaceName(name)} {`,
    ...members,
    '}',
    '',
  ];
  return { path: join(dirname(dirname(file)), `${name}_exports.ts`), text: lines.join('\n') };
}

/** Writes the files that are not what they should be. */
export function writeExports() {
  for (const kernel of kernels()) {
    const { path, text } = exportsFileOf(kernel);
    if (!existsSync(path) || readFileSync(path, 'utf8') !== text) writeFileSync(path, text);
  }
}
