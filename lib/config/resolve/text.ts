/**
 * Configuration files as one tree: YAML text, `${NAME:default}` expanded from the environment,
 * later files merged over earlier ones, and for each value the file and line it came from. This is
 * the one place that knows the YAML library; what the tree means is in ../schema/.
 */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  Scalar,
} from 'yaml';
import { messageOf } from '../../errors.ts';

/** Where a value stands; `line` counts from 1. */
export interface ConfigLocation {
  readonly file: string;
  readonly line: number;
}

export interface ConfigTree {
  /**
   * Plain objects, arrays, strings, numbers and booleans; undefined for a key with nothing behind
   * it.
   */
  readonly value: Record<string, unknown>;
  /** Location by path; keys of a path are joined by `pathSeparator`. */
  readonly locations: ReadonlyMap<string, ConfigLocation>;
}

export interface ConfigFile {
  /** As the user gave it; named in problems. */
  readonly path: string;
  readonly text: string;
}

export const pathSeparator = '\u0000';

/** Nesting deeper than this is refused: it bounds what aliases can build. */
const depthMax = 64;

/**
 * Nodes in one file of a configuration; more are refused for the same reason. Ten thousand rules of
 * aggregation have some three hundred thousand.
 */
const nodesUsuallyMax = 500_000;

/**
 * Reads and merges configuration files.
 *
 * @param environment variables for `${NAME}`; a variable that is not set and has no default is a
 * problem
 * @param problems gets one line for each mistake: "file:line: reason"
 * @param nodesMax of each file
 */
export function readConfigFiles(
  files: readonly ConfigFile[],
  environment: Readonly<Record<string, string | undefined>>,
  problems: string[],
  nodesMax: number = nodesUsuallyMax,
): ConfigTree {
  let value: Record<string, unknown> = {};
  const locations = new Map<string, ConfigLocation>();
  for (const file of files) {
    const read = new FileReader(file, environment, problems, nodesMax).read();
    if (read !== null) value = merge(value, read, [], file.path, locations);
  }
  return { value, locations };
}

/** A value with its line, before the files are merged. */
interface Node {
  readonly line: number;
  readonly value: string | number | boolean | null | readonly Node[] | ReadonlyMap<string, Node>;
}

/**
 * Lays one file's mapping over what the earlier files said: mappings are merged key by key,
 * everything else replaces. An empty value takes nothing away from what earlier files said.
 */
function merge(
  under: Record<string, unknown>,
  over: ReadonlyMap<string, Node>,
  path: readonly string[],
  file: string,
  locations: Map<string, ConfigLocation>,
): Record<string, unknown> {
  // Object.fromEntries() defines its keys: what is assigned to a key called __proto__ would be read as
  // if it stood one level higher, and nothing would say so.
  const merged = new Map(Object.entries(under));
  for (const [key, node] of over) {
    const keyPath = [...path, key];
    if (node.value === null) {
      if (merged.has(key)) continue;
      merged.set(key, undefined);
    }
    locations.set(keyPath.join(pathSeparator), { file, line: node.line });
    if (node.value === null) continue;
    if (node.value instanceof Map) {
      const below = merged.get(key);
      const base = isPlainObject(below) ? below : {};
      merged.set(key, merge(base, node.value, keyPath, file, locations));
    } else {
      merged.set(key, plain(node, keyPath, file, locations));
    }
  }
  return Object.fromEntries(merged);
}

function plain(
  node: Node,
  path: readonly string[],
  file: string,
  locations: Map<string, ConfigLocation>,
): unknown {
  locations.set(path.join(pathSeparator), { file, line: node.line });
  if (node.value instanceof Map) return merge({}, node.value, path, file, locations);
  if (Array.isArray(node.value)) {
    return (node.value as Node[]).map((item, index) =>
      plain(item, [...path, String(index)], file, locations),
    );
  }
  return node.value;
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// A default may be quoted, and then may hold braces.
const variablePattern = /\$\{([A-Za-z_][A-Za-z0-9_]*)(?::("(?:[^"\\\n]|\\.)*"|[^}\n]*))?\}/g;

/**
 * Variables are replaced after the text was parsed, so that a value from the environment can
 * neither break the file nor smuggle in keys: each occurrence stands for a mark of letters until
 * then.
 */
class FileReader {
  readonly #file: ConfigFile;
  readonly #environment: Readonly<Record<string, string | undefined>>;
  readonly #problems: string[];
  readonly #nodesMax: number;
  readonly #lines = new LineCounter();
  readonly #marks: { readonly name: string; readonly fallback: string | undefined }[] = [];
  readonly #markPattern: RegExp;
  readonly #markPrefix: string;
  #nodes = 0;

  constructor(
    file: ConfigFile,
    environment: Readonly<Record<string, string | undefined>>,
    problems: string[],
    nodesMax: number,
  ) {
    this.#file = file;
    this.#environment = environment;
    this.#problems = problems;
    this.#nodesMax = nodesMax;
    let prefix = 'VARIABLE';
    while (file.text.includes(prefix)) prefix += 'X';
    this.#markPrefix = prefix;
    this.#markPattern = new RegExp(`${prefix}(\\d+)E`, 'g');
  }

  read(): ReadonlyMap<string, Node> | null {
    const text = this.#file.text.replace(
      variablePattern,
      (_all, name: string, fallback?: string) => {
        this.#marks.push({ name, fallback });
        return `${this.#markPrefix}${this.#marks.length - 1}E`;
      },
    );
    const document = parseDocument(text, { lineCounter: this.#lines, prettyErrors: false });
    for (const error of document.errors) {
      this.#problem(this.#lines.linePos(error.pos[0]).line, `not YAML: ${error.message}`);
    }
    if (document.errors.length > 0 || document.contents === null) return null;
    const node = this.#node(document.contents, 1, 0, document);
    if (node === null || node.value === null) return null;
    if (!(node.value instanceof Map)) {
      this.#problem(node.line, 'must be a mapping of sections such as "coordinator:" and "db:"');
      return null;
    }
    return node.value;
  }

  #problem(line: number, reason: string): void {
    this.#problems.push(`${this.#file.path}:${line}: ${reason}`);
  }

  #node(yaml: unknown, lineAbove: number, depth: number, document: Document): Node | null {
    const range = (yaml as { range?: readonly number[] | null } | null)?.range;
    const line = range ? this.#lines.linePos(range[0]!).line : lineAbove;
    this.#nodes += 1;
    if (depth > depthMax || this.#nodes > this.#nodesMax) {
      if (this.#nodes <= this.#nodesMax + 1)
        this.#problem(line, 'is nested too deeply or too large');
      return null;
    }
    if (isAlias(yaml)) return this.#node(yaml.resolve(document), line, depth + 1, document);
    if (isMap(yaml)) {
      const map = new Map<string, Node>();
      for (const { key, value } of yaml.items) {
        const keyRange = (key as { range?: readonly number[] | null } | null)?.range;
        const keyLine = keyRange ? this.#lines.linePos(keyRange[0]!).line : line;
        if (!isScalar(key)) {
          this.#problem(keyLine, 'a key must be a plain word');
          continue;
        }
        const child = this.#node(value, keyLine, depth + 1, document);
        // The line of a key is where a reader looks, even when its value begins on the next one.
        if (child !== null) map.set(String(key.value), { line: keyLine, value: child.value });
      }
      return { line, value: map };
    }
    if (isSeq(yaml)) {
      const items = yaml.items.map((item) => this.#node(item, line, depth + 1, document));
      return { line, value: items.filter((item) => item !== null) };
    }
    if (isScalar(yaml)) return this.#scalar(yaml, line);
    return { line, value: null };
  }

  #scalar(scalar: Scalar, line: number): Node | null {
    const { value } = scalar;
    if (typeof value === 'string') {
      if (!value.includes(this.#markPrefix)) return { line, value };
      const whole = new RegExp(`^${this.#markPrefix}(\\d+)E$`).exec(value);
      if (whole !== null && scalar.type === Scalar.PLAIN) {
        return this.#variable(Number(whole[1]), line);
      }
      return {
        line,
        value: value.replace(this.#markPattern, (_all, index: string) =>
          this.#variableText(Number(index), line),
        ),
      };
    }
    if (typeof value === 'number' || typeof value === 'boolean' || value === null) {
      return { line, value };
    }
    this.#problem(line, 'a value of this kind is not understood');
    return null;
  }

  /** A variable that is the whole of an unquoted value may be a number, a boolean or a list. */
  #variable(index: number, line: number): Node | null {
    const { name, fallback } = this.#marks[index]!;
    const given = this.#environment[name];
    if (given === undefined && fallback === undefined) {
      this.#variableText(index, line);
      return null;
    }
    const text = given ?? fallback!;
    const parsed = parseDocument(text, { prettyErrors: false });
    // Text that is no YAML by itself, such as a pattern that begins with '*', is meant as it is.
    if (parsed.errors.length > 0) return { line, value: text };
    return fromPlain(parsed.toJS({ maxAliasCount: 0 }), line);
  }

  #variableText(index: number, line: number): string {
    const { name, fallback } = this.#marks[index]!;
    const given = this.#environment[name];
    if (given !== undefined) return given;
    if (fallback === undefined) {
      this.#problem(line, `environment variable ${name} is not set and has no default`);
      return '';
    }
    if (!fallback.startsWith('"')) return fallback;
    try {
      return JSON.parse(fallback) as string;
    } catch (error) {
      this.#problem(line, `the default of ${name} is not a quoted text: ${messageOf(error)}`);
      return '';
    }
  }
}

function fromPlain(value: unknown, line: number): Node {
  if (Array.isArray(value)) return { line, value: value.map((item) => fromPlain(item, line)) };
  if (isPlainObject(value)) {
    const entries = Object.entries(value);
    return { line, value: new Map(entries.map(([key, item]) => [key, fromPlain(item, line)])) };
  }
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') {
    return { line, value };
  }
  return { line, value: null };
}
