/**
 * Which schema may come after others. Rows of all of them lie in one series, and chunks keep fields by number: a
 * number has one meaning for ever.
 */
import { badRequest } from '#lib/errors.ts';
import type { FieldKind, MessageType, SchemaField } from './schema.ts';

/** Kinds that hold everything that another one holds, kept the same way. */
const wider: Readonly<Partial<Record<FieldKind, readonly FieldKind[]>>> = {
  int32: ['int64', 'sint64', 'sfixed64', 'sint32', 'sfixed32'],
  sint32: ['int64', 'sint64', 'sfixed64', 'int32', 'sfixed32'],
  sfixed32: ['int64', 'sint64', 'sfixed64', 'int32', 'sint32'],
  int64: ['sint64', 'sfixed64'],
  sint64: ['int64', 'sfixed64'],
  sfixed64: ['int64', 'sint64'],
  uint32: ['uint64', 'fixed64', 'fixed32'],
  fixed32: ['uint64', 'fixed64', 'uint32'],
  uint64: ['fixed64'],
  fixed64: ['uint64'],
  bool: ['uint32', 'uint64', 'fixed32', 'fixed64'],
  enum: ['int32', 'int64', 'sint32', 'sint64', 'sfixed32', 'sfixed64'],
  string: ['bytes'],
};

/** What elements of a packed list are sent as: they are kept so. */
const packedAs: Readonly<Partial<Record<FieldKind, readonly FieldKind[]>>> = {
  int32: ['int64'],
  uint32: ['uint64', 'int64'],
  bool: ['uint32', 'uint64', 'int32', 'int64'],
  enum: ['int32', 'int64'],
  sint32: ['sint64'],
  string: ['bytes'],
};

/**
 * @param history schemas of before, in any order
 * @throws {TsdbError} BAD_REQUEST that names the first field that changes its meaning
 */
export function checkChange(history: readonly MessageType[], next: MessageType): void {
  const check = (before: MessageType, after: MessageType, path: string): void => {
    for (const field of after.fields) {
      const where = path === '' ? field.name : `${path}.${field.name}`;
      const sameNumber = before.field(field.number);
      const sameName = [field.name, field.jsonName]
        .map((name) => before.named(name))
        .find((each) => each !== undefined && each.number !== field.number);
      if (sameName !== undefined) {
        throw refused(
          where,
          `its name was that of number ${sameName.number} and is now that of ${field.number}`,
        );
      }
      if (sameNumber === undefined) continue;
      const reason = changeOf(sameNumber, field);
      if (reason !== null) throw refused(where, `number ${field.number} ${reason}`);
      if (sameNumber.message === null || field.message === null) continue;
      const pair = `${sameNumber.message.name} ${field.message.name}`;
      if (seen.has(pair)) continue;
      seen.add(pair);
      check(sameNumber.message, field.message, where);
    }
  };
  const seen = new Set<string>();
  for (const before of history) {
    seen.clear();
    check(before, next, '');
  }
}

function refused(where: string, reason: string): Error {
  return badRequest(`cannot change schema: ${where}: ${reason}; give it another number`);
}

/** Why values of before would be read as something else; null when they would not. */
function changeOf(before: SchemaField, after: SchemaField): string | null {
  if (before.rule !== after.rule) return `was ${ruleOf(before)} and is ${ruleOf(after)}`;
  if (before.kind === after.kind) return null;
  const table = before.rule === 'repeated' ? packedAs : wider;
  if (table[before.kind]?.includes(after.kind)) return null;
  return `was ${before.kind} and is ${after.kind}`;
}

function ruleOf({ rule }: SchemaField): string {
  return rule === 'single' ? 'without `optional`' : rule;
}
