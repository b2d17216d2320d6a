/** One schema of many that came after each other: every field that any of them has, as the newest one has it. */
import { badRequest } from '#lib/errors.ts';
import { MessageType, type SchemaField, schemaMessagesMax } from './schema.ts';

/**
 * Names and numbers mean the same in all of them (history.ts), so none is there twice.
 * @param history ascending, one at least
 * @throws {TsdbError} BAD_REQUEST when messages that have each other as fields make too many together
 */
export function mergedType(history: readonly MessageType[]): MessageType {
  return history.length === 1 ? history[0]! : new Merger().of(history);
}

class Merger {
  /** Messages may have themselves as fields. */
  readonly #known = new Map<string, MessageType>();
  readonly #ids = new Map<MessageType, number>();

  of(history: readonly MessageType[]): MessageType {
    const newest = history.at(-1)!;
    const key = history.map((type) => this.#idOf(type)).join(' ');
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#known.size >= schemaMessagesMax) {
      throw badRequest(
        `cannot take schema: ${newest.name}: with the schemas before there are more than ${schemaMessagesMax} messages`,
      );
    }
    const merged = new MessageType(newest.name);
    this.#known.set(key, merged);
    const byNumber = new Map<number, SchemaField[]>();
    for (const type of history) {
      for (const field of type.fields) {
        const before = byNumber.get(field.number);
        if (before === undefined) byNumber.set(field.number, [field]);
        else before.push(field);
      }
    }
    return merged.setFields([...byNumber.values()].map((fields) => this.#field(fields)));
  }

  #idOf(type: MessageType): number {
    const id = this.#ids.get(type) ?? this.#ids.size;
    this.#ids.set(type, id);
    return id;
  }

  #field(fields: readonly SchemaField[]): SchemaField {
    const newest = fields.at(-1)!;
    if (newest.message === null || fields.length === 1) return newest;
    const messages = fields.flatMap(({ message }) => (message === null ? [] : [message]));
    return { ...newest, message: this.of(messages) };
  }
}
