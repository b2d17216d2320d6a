/** Sections of the files of Carbon that name patterns of paths: `[name]`, and lines `key = value`, as Python's configparser reads them. */
import { badRequest, shownText } from '#lib/errors.ts';

/** Longest file; more is refused. */
const fileCharactersMax = 1 << 20;

export interface Option {
  readonly value: string;
  /** Where it stands, for errors: file, line, section and key. */
  readonly place: string;
}

export class Section {
  readonly name: string;
  /** File, line and name. */
  readonly place: string;
  /** By key in small letters; what was taken is out of it. */
  readonly #options = new Map<string, Option>();

  constructor(name: string, place: string) {
    this.name = name;
    this.place = place;
  }

  add(key: string, option: Option): void {
    if (this.#options.has(key)) throw badRequest(`${option.place}: given twice`);
    this.#options.set(key, option);
  }

  /** Null when it is not given. */
  take(key: string): Option | null {
    const option = this.#options.get(key) ?? null;
    this.#options.delete(key);
    return option;
  }

  /** @throws {TsdbError} BAD_REQUEST when it is not given */
  need(key: string): Option {
    const option = this.take(key);
    if (option === null) throw badRequest(`${this.place}: it has no ${key}`);
    return option;
  }

  /** That of its paths, RE2; with `match-all` one of all. */
  pattern(): Option {
    const all = this.take('match-all');
    if (all === null) return this.need('pattern');
    if (/^(true|yes|on|1)$/i.test(all.value)) return { ...all, value: '.' };
    throw badRequest(`${all.place}: not true: ${shownText(all.value)}`);
  }

  /** @throws {TsdbError} BAD_REQUEST naming a key that nothing has taken */
  end(): void {
    for (const { place } of this.#options.values()) throw badRequest(`${place}: unknown key`);
  }
}

/**
 * @param path of the file, for errors
 * @throws {TsdbError} BAD_REQUEST naming file, line, section and reason
 */
export function sectionsOf(text: string, path: string): Section[] {
  if (text.length > fileCharactersMax) {
    throw badRequest(`${path}: longer than ${fileCharactersMax} characters: ${text.length}`);
  }
  const sections = new Map<string, Section>();
  let section: Section | null = null;
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    const at = `${path}:${index + 1}`;
    const content = line.trim();
    if (content === '' || content.startsWith('#') || content.startsWith(';')) continue;
    const name = /^\[([^\]]+)\]$/.exec(content)?.[1];
    if (name !== undefined) {
      if (name === 'DEFAULT')
        throw badRequest(`${at}: [DEFAULT]: values for all sections are none here`);
      if (sections.has(name)) throw badRequest(`${at}: [${name}]: a section has this name already`);
      section = new Section(name, `${at}: [${name}]`);
      sections.set(name, section);
      continue;
    }
    if (section === null)
      throw badRequest(`${at}: before the first [section]: ${shownText(content)}`);
    // Which would go on with the value of the line before.
    if (/^\s/.test(line))
      throw badRequest(`${at}: [${section.name}]: the line begins with a space`);
    const [, key, value] = /^([^=:]+?)\s*[=:]\s*(.*)$/.exec(content) ?? [];
    if (key === undefined || value === undefined || value === '') {
      throw badRequest(`${at}: [${section.name}]: not as key = value: ${shownText(content)}`);
    }
    section.add(key.toLowerCase(), { value, place: `${at}: [${section.name}] ${key}` });
  }
  return [...sections.values()];
}
