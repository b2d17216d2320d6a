/**
 * Schemas of a namespace: what its values are when they are protobuf messages. Each one that is deployed stands for
 * ever beside the ones before, since rows of all of them lie in one series; a reset ends those before it, whose rows
 * nobody reads any more.
 */
import { badRequest } from '#lib/errors.ts';
import { compareTexts } from '#lib/text_order.ts';
import { numericFieldsOf } from '#engine/messages/numeric_fields.ts';
import { checkChange } from '#engine/messages/history.ts';
import { mergedType } from '#engine/messages/merged.ts';
import { type MessageType, readSchema } from '#engine/messages/schema.ts';
import type { Fields } from '../fields.ts';
import { schemaBytesMax, schemaFileBytesMax, schemasMax } from '../limits.ts';

export interface SchemaVersion {
  /** The layout of its rows' values: higher than those of all that came before in the namespace. */
  readonly number: number;
  readonly deployId: string;
  /** Of the one before it, '' of the first one. */
  readonly prevId: string;
  /** With its package; '' of a reset. */
  readonly messageName: string;
  /** The file that has it. */
  readonly protoName: string;
  /** Texts by the names by which they import each other. */
  readonly protoMap: Readonly<Record<string, string>>;
}

/** What somebody deploys. */
export type SchemaText = Pick<SchemaVersion, 'messageName' | 'protoName' | 'protoMap'>;

const millisPerMinute = 60_000;

/**
 * A number is at least the time in minutes, so that a store that was restored from a backup does not give one again
 * that rows have already.
 */
function nextNumber(versions: readonly SchemaVersion[], nowMillis: number): number {
  return Math.max((versions.at(-1)?.number ?? 0) + 1, Math.floor(nowMillis / millisPerMinute));
}

/**
 * The schemas with one more; the same when the newest one is just that.
 * @throws {TsdbError} BAD_REQUEST naming the field that is not supported, or changes its meaning
 */
export function withSchema(
  versions: readonly SchemaVersion[],
  text: SchemaText,
  deployId: string,
  nowMillis: number,
): readonly SchemaVersion[] {
  const last = versions.at(-1);
  if (last !== undefined && isSameText(last, text)) return versions;
  if (!Object.hasOwn(text.protoMap, text.protoName)) {
    throw badRequest(`protoName: not among the files of protoMap: ${text.protoName}`);
  }
  const bytes = Object.values(text.protoMap).reduce((sum, { length }) => sum + length, 0);
  if (bytes > schemaFileBytesMax) {
    throw badRequest(`protoMap: files of more than ${schemaFileBytesMax} bytes: ${bytes}`);
  }
  const type = readSchema(text.protoMap, text.messageName);
  const before = standing(versions).map(typeOf);
  if (before.length >= schemasMax) {
    throw badRequest(
      `cannot deploy schema: ${schemasMax} stand in the namespace, which is the most; a reset ends them`,
    );
  }
  // Merged first: what is not too much for that is not too much to compare.
  const merged = mergedType([...before, type]);
  checkChange(before, type);
  numericFieldsOf(merged);
  return withVersion(versions, text, deployId, nowMillis);
}

/** @returns the schemas ended: what was written by them is not read any more; the same when there are none */
export function withReset(
  versions: readonly SchemaVersion[],
  deployId: string,
  nowMillis: number,
): readonly SchemaVersion[] {
  if (standing(versions).length === 0) return versions;
  const none = { messageName: '', protoName: '', protoMap: {} };
  // Of what is ended only the numbers matter, of which the highest is the last.
  const ended = versions.slice(-schemasMax).map((version) => ({ ...version, protoMap: {} }));
  return withVersion(ended, none, deployId, nowMillis);
}

function withVersion(
  versions: readonly SchemaVersion[],
  text: SchemaText,
  deployId: string,
  nowMillis: number,
): readonly SchemaVersion[] {
  const number = nextNumber(versions, nowMillis);
  const prevId = versions.at(-1)?.deployId ?? '';
  const { messageName, protoName, protoMap } = text;
  return [...versions, { number, deployId, prevId, messageName, protoName, protoMap }];
}

/** Whether it stands already, also when another one came after it; or all were reset, which is a later word, too. */
export function hasSchemaOrReset(versions: readonly SchemaVersion[], text: SchemaText): boolean {
  if (versions.at(-1)?.messageName === '') return true;
  return standing(versions).some((version) => isSameText(version, text));
}

function isSameText(a: SchemaText, b: SchemaText): boolean {
  const textOf = ({ messageName, protoName, protoMap }: SchemaText): string => {
    const files = Object.entries(protoMap).sort(([one], [other]) => compareTexts(one, other));
    return JSON.stringify([messageName, protoName, files]);
  };
  return textOf(a) === textOf(b);
}

/** @throws {TsdbError} BAD_REQUEST when the schemas of all namespaces together have become too large */
export function checkSchemaBytes(all: Iterable<readonly SchemaVersion[]>): void {
  let bytes = 0;
  for (const versions of all) bytes += Buffer.byteLength(JSON.stringify(versions));
  if (bytes <= schemaBytesMax) return;
  throw badRequest(
    `cannot deploy schema: those of all namespaces would take ${bytes} bytes of ${schemaBytesMax}`,
  );
}

/** Of two histories of one namespace, of which one may have been lost in a store that went back. */
export function joinedSchemas(
  first: readonly SchemaVersion[],
  second: readonly SchemaVersion[],
): readonly SchemaVersion[] {
  if (first.length === 0 || second.length === 0) return first.length === 0 ? second : first;
  const all = new Map(second.map((version) => [version.number, version]));
  for (const version of first) all.set(version.number, version);
  return [...all.values()].sort((a, b) => a.number - b.number);
}

/** Those whose rows are read. */
function standing(versions: readonly SchemaVersion[]): readonly SchemaVersion[] {
  const reset = versions.findLastIndex(({ messageName }) => messageName === '');
  return versions.slice(reset + 1);
}

export function schemaToJson(version: SchemaVersion): object {
  const { number, deployId, prevId, messageName, protoName, protoMap } = version;
  return { number: String(number), deployId, prevId, msgName: messageName, protoName, protoMap };
}

/** @throws {TsdbError} BAD_REQUEST naming the field */
export function schemaFromFields(fields: Fields): SchemaVersion {
  const version = {
    number: Number(fields.int64('number', 0n)),
    deployId: fields.string('deployId', ''),
    prevId: fields.string('prevId', ''),
    ...schemaTextOf(fields),
  };
  fields.end();
  return version;
}

/** Reads `msgName`, `protoName` and `protoMap`. */
export function schemaTextOf(fields: Fields): SchemaText {
  const messageName = fields.string('msgName', '');
  const protoName = fields.string('protoName', '');
  const protoMap = fields.any('protoMap') ?? {};
  const isMap = typeof protoMap === 'object' && !Array.isArray(protoMap);
  if (!isMap) throw fields.bad('protoMap', 'not an object of file names to texts', protoMap);
  for (const [name, text] of Object.entries(protoMap)) {
    if (typeof text !== 'string') throw fields.bad(`protoMap.${name}`, 'not a string', text);
  }
  return { messageName, protoName, protoMap: protoMap as Record<string, string> };
}

/** Types that were read, by ID and number: the registry is decoded anew with each of its changes. */
const typesRead = new Map<string, MessageType>();
/** More than stand in one namespace: all of them are shown together. */
const typesReadMax = 2 * schemasMax;

function typeOf({ deployId, number, messageName, protoMap }: SchemaVersion): MessageType {
  const key = `${deployId} ${number}`;
  let type = typesRead.get(key);
  if (type === undefined) {
    type = readSchema(protoMap, messageName);
    if (typesRead.size >= typesReadMax) typesRead.delete(typesRead.keys().next().value!);
    typesRead.set(key, type);
  }
  return type;
}

/** @returns null when its values are floats and histograms */
export function schemasOf({
  schemas,
}: {
  readonly schemas?: readonly SchemaVersion[];
}): Schemas | null {
  return schemas === undefined ? null : Schemas.of(schemas);
}

/** A schema with the number of its rows. */
export interface NumberedSchema {
  readonly number: number;
  readonly type: MessageType;
}

/** The schemas of a namespace that are read, for those who write and read its values. */
export class Schemas {
  readonly #standing: readonly SchemaVersion[];
  readonly #numbers: ReadonlySet<number>;
  readonly #types = new Map<number, MessageType>();
  readonly #newest: number;
  #shown: MessageType | null = null;

  private constructor(versions: readonly SchemaVersion[]) {
    this.#standing = standing(versions);
    this.#numbers = new Set(this.#standing.map(({ number }) => number));
    this.#newest = versions.at(-1)?.number ?? 0;
  }

  static readonly #of = new WeakMap<readonly SchemaVersion[], Schemas>();

  /** @returns null when none stands */
  static of(versions: readonly SchemaVersion[]): Schemas | null {
    let schemas = Schemas.#of.get(versions);
    if (schemas === undefined) {
      schemas = new Schemas(versions);
      Schemas.#of.set(versions, schemas);
    }
    return schemas.#standing.length === 0 ? null : schemas;
  }

  /** By which values are written now. */
  get current(): NumberedSchema {
    const { number } = this.#standing.at(-1)!;
    return { number, type: this.typeOf(number)! };
  }

  /** Whether rows of this layout are read. */
  has(layout: number): boolean {
    return this.#numbers.has(layout);
  }

  /** Whether rows of this layout are of a schema that was deployed later than all that are known here. */
  isLater(layout: number): boolean {
    return layout > this.#newest;
  }

  /** Of rows with this layout; null when they are read no more, or not known here yet. */
  typeOf(layout: number): MessageType | null {
    let type = this.#types.get(layout);
    if (type === undefined) {
      const version = this.#standing.find(({ number }) => number === layout);
      if (version === undefined) return null;
      type = typeOf(version);
      this.#types.set(layout, type);
    }
    return type;
  }

  /** All fields that any of them has, each as the newest one has it: what values are shown by. */
  get shown(): MessageType {
    this.#shown ??= mergedType(this.#standing.map(typeOf));
    return this.#shown;
  }
}
