/**
 * Where settings stand: problems and notes name the file and the line.
 */
import type { Checked } from '../schema/schema.ts';
import { type ConfigTree, pathSeparator } from './text.ts';
import { withoutEffect } from '../schema/values.ts';

const besideAggregator = [
  'logging',
  'metrics',
  'http',
  'rawtcp',
  'm3msg',
  'kvClient',
  'runtimeOptions',
];

/** What M3's file of an aggregator has beside its section belongs into it. */
export function withBeside(value: Record<string, unknown>): Record<string, unknown> {
  const { aggregator, ...others } = value;
  if (typeof aggregator !== 'object' || aggregator === null) return value;
  const beside = Object.entries(others).filter(([key]) => besideAggregator.includes(key));
  const rest = Object.entries(others).filter(([key]) => !besideAggregator.includes(key));
  return {
    ...Object.fromEntries(rest),
    aggregator: { ...Object.fromEntries(beside), ...aggregator },
  };
}

export class SectionReader {
  readonly #tree: ConfigTree;
  /** The file's top is the coordinator's section. */
  readonly #lifted: boolean;
  readonly #problems: string[];
  readonly notes: string[] = [];

  constructor(tree: ConfigTree, lifted: boolean, problems: string[]) {
    this.#tree = tree;
    this.#lifted = lifted;
    this.#problems = problems;
  }

  section<Section>(
    name: string,
    sections: Record<string, unknown>,
    check: (value: unknown) => Checked<Section>,
  ): Section | null {
    const given = sections[name] ?? {};
    const checked = check(given);
    if ('problems' in checked) {
      for (const { path, reason } of checked.problems) this.add([name, ...path], reason);
      return null;
    }
    this.#noteTunings(checked.value, [name]);
    return checked.value;
  }

  /** Adds a problem at the nearest place that stands in a file. */
  add(path: readonly string[], reason: string): void {
    this.#problems.push(`${this.#where(path)}: ${reason}`);
  }

  /** Notes a setting without effect if it stands in a file. */
  noteGiven(path: readonly string[], reason: string): void {
    if (this.#tree.locations.has(path.join(pathSeparator))) {
      this.notes.push(`${this.#where(path)} has no effect here: ${reason}`);
    }
  }

  #where(path: readonly string[]): string {
    const { locations } = this.#tree;
    const isBeside =
      path[0] === 'aggregator' &&
      besideAggregator.includes(path[1]!) &&
      !locations.has(path.slice(0, 2).join(pathSeparator));
    const inFile = this.#lifted || isBeside ? path.slice(1) : path;
    for (let length = inFile.length; length > 0; length -= 1) {
      const location = locations.get(inFile.slice(0, length).join(pathSeparator));
      if (location !== undefined) return `${location.file}:${location.line}: ${inFile.join('.')}`;
    }
    return inFile.join('.');
  }

  #noteTunings(value: unknown, path: readonly string[]): void {
    if (value === withoutEffect) {
      this.notes.push(`${this.#where(path)} has no effect here`);
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, item] of Object.entries(value)) this.#noteTunings(item, [...path, key]);
    }
  }
}
