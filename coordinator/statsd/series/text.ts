/** Names, labels and numbers as Prometheus' text has them. */

export class SeriesName {
  readonly #name: string;
  readonly #labels: readonly (readonly [name: string, value: string])[];

  /** @param labels in any order, without those that are empty */
  constructor(name: string, labels: Iterable<readonly [name: string, value: string]>) {
    this.#name = name;
    this.#labels = [...labels].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  get text(): string {
    return textOf(this.#name, this.#labels);
  }

  with(label: string, value: string): string {
    return textOf(this.#name, [...this.#labels, [label, value]]);
  }

  suffixed(suffix: string, label?: string, value?: string): string {
    const labels = label === undefined ? [] : [[label, value!] as const];
    return textOf(`${this.#name}${suffix}`, [...this.#labels, ...labels]);
  }
}

function textOf(name: string, labels: readonly (readonly [string, string])[]): string {
  if (labels.length === 0) return name;
  const pairs = labels.map(([label, value]) => `${label}="${escaped(value)}"`);
  return `${name}{${pairs.join(',')}}`;
}

function escaped(value: string): string {
  return value.replace(/[\\"\n]/g, (character) => (character === '\n' ? '\\n' : `\\${character}`));
}

export function numberText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  return value === Number.NEGATIVE_INFINITY ? '-Inf' : String(value);
}
