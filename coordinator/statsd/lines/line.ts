/**
 * A line of statsd as events, in the words of its dialects:
 *
 *     name:value|type|@rate|#tags|c:container|Ttime      (e:… and card:… are passed over, as the time is)
 *     name:value|type:value|type          several samples
 *     name:value:value|ms                 several values of a timer, a histogram or a distribution
 *
 * This is the whole of what is read. It is asked once for each name with its tags, and for lines that are not of the usual form
 * (reader.ts), for which it is also the twin.
 */
import { takeNameTags, takeTags, type TagDialects } from './names.ts';

export type EventType = 'counter' | 'gauge' | 'timer' | 'histogram' | 'distribution' | 'set';

export interface StatsdEvent {
  readonly type: EventType;
  /** As it came, without tags. */
  readonly name: string;
  readonly labels: ReadonlyMap<string, string>;
  /** Of a timer in milliseconds; a counter's is by its rate already. NaN for a member of a set. */
  readonly value: number;
  /** How often it counts: a timer's by its rate, with a fraction. */
  readonly times: number;
  /** A gauge's is added. */
  readonly isRelative: boolean;
  /** Of a set. */
  readonly member: string;
  /** The value as it stands in the line, and what stands behind it: type, rate and tags. */
  readonly text: string;
  readonly rest: string;
}

/** Why samples are refused, as metrics name it. */
export type LineProblem =
  | 'malformed_line'
  /** DogStatsD's events and checks, which are no samples. */
  | 'event'
  | 'service_check'
  | 'mixed_tagging_styles'
  | 'malformed_component'
  | 'malformed_value'
  | 'illegal_type'
  | 'invalid_extended_aggregation';

/** What is wrong with a part that does not keep a sample from being taken. */
export type PartProblem = 'malformed_tag' | 'invalid_rate';

export interface ParsedLine {
  /** Name as it came, with the tags in it. */
  readonly head: string;
  readonly events: readonly StatsdEvent[];
  readonly problems: readonly LineProblem[];
  readonly partProblems: readonly PartProblem[];
}

const types: ReadonlyMap<string, EventType> = new Map([
  ['c', 'counter'],
  ['g', 'gauge'],
  ['ms', 'timer'],
  ['h', 'histogram'],
  ['d', 'distribution'],
  ['s', 'set'],
]);
/** A sample has a value, a type and at most four more. */
const componentsMax = 6;
/** A rate below it is taken for it: so often a sample counts at most. */
export const rateMin = 1e-6;

/** @param line without its end; texts that are not UTF-8 have been refused before */
export function parseLine(line: string, dialects: TagDialects): ParsedLine {
  const parser = new LineParser(dialects);
  parser.read(line);
  return parser;
}

class LineParser implements ParsedLine {
  readonly events: StatsdEvent[] = [];
  readonly problems: LineProblem[] = [];
  readonly partProblems: PartProblem[] = [];
  readonly #dialects: TagDialects;
  readonly #labels = new Map<string, string>();
  head = '';
  #name = '';

  constructor(dialects: TagDialects) {
    this.#dialects = dialects;
  }

  read(line: string): void {
    const other = /^_(?:e\{\d+,\d+\}:|sc\|)/.exec(line);
    if (other !== null) {
      this.problems.push(line.startsWith('_e') ? 'event' : 'service_check');
      return;
    }
    const colon = line.indexOf(':');
    if (colon <= 0) {
      this.problems.push('malformed_line');
      return;
    }
    this.head = line.slice(0, colon);
    const { name, badTags } = takeNameTags(this.head, this.#dialects, this.#labels);
    this.#name = name;
    this.#noteBadTags(badTags);
    if (name === '') {
      this.problems.push('malformed_line');
      return;
    }
    const rest = line.slice(colon + 1);
    const hasDogTags = rest.includes('|#');
    if (hasDogTags && this.#labels.size > 0) {
      this.problems.push('mixed_tagging_styles');
      return;
    }
    const [values, type] = rest.split('|', 2);
    if (type === undefined) {
      this.problems.push('malformed_component');
      return;
    }
    if (values!.includes(':')) {
      if (type !== 'ms' && type !== 'h' && type !== 'd') {
        this.problems.push('invalid_extended_aggregation');
        return;
      }
      // What stands behind the values is of all of them.
      this.#sample(values!.split(':'), rest.slice(values!.length + 1));
      return;
    }
    // Values of tags have colons, too.
    for (const sample of hasDogTags ? [rest] : rest.split(':')) {
      const end = sample.indexOf('|');
      if (end < 0) this.problems.push('malformed_component');
      else this.#sample([sample.slice(0, end)], sample.slice(end + 1));
    }
  }

  #sample(values: readonly string[], rest: string): void {
    const [typeName, ...more] = rest.split('|');
    if (more.length + 2 > componentsMax || more.includes('')) {
      this.problems.push('malformed_component');
      return;
    }
    const type = types.get(typeName!);
    const good = type === 'set' ? values.filter((text) => text !== '') : [];
    const numbers: number[] = [];
    if (type !== 'set') {
      for (const text of values) {
        const value = numberOf(text);
        if (value === null) continue;
        good.push(text);
        numbers.push(value);
      }
    }
    for (let bad = values.length - good.length; bad > 0; bad--)
      this.problems.push('malformed_value');
    if (good.length === 0) return;
    const rate = this.#rateOfComponents(more);
    if (rate === null) {
      this.problems.push('malformed_component');
      return;
    }
    if (type === undefined) {
      this.problems.push('illegal_type');
      return;
    }
    const isObserved = type !== 'counter' && type !== 'gauge' && type !== 'set';
    for (const [place, text] of good.entries()) {
      const value = numbers[place] ?? Number.NaN;
      this.events.push({
        type,
        name: this.#name,
        labels: this.#labels,
        value: type === 'counter' ? value / rate : value,
        times: isObserved ? Math.max(1, 1 / rate) : 1,
        isRelative: type === 'gauge' && (text.startsWith('+') || text.startsWith('-')),
        member: type === 'set' ? text : '',
        text,
        rest,
      });
    }
  }

  /** Reads what stands behind a type. @returns the rate, 1 where there is none; null when something is no such part */
  #rateOfComponents(components: readonly string[]): number | null {
    let rate = 1;
    for (const component of components) {
      switch (component[0]) {
        case '@':
          rate = this.#rateOf(component.slice(1));
          break;
        case '#':
          if (this.#dialects.dogstatsd)
            this.#noteBadTags(takeTags(component.slice(1), ':', this.#labels));
          break;
        case 'T':
          break;
        default:
          if (/^(e|card):./s.test(component)) break;
          if (!/^c:./s.test(component)) return null;
          this.#labels.set('container_id', component.slice(2));
      }
    }
    return rate;
  }

  /** 1 for what is none. */
  #rateOf(text: string): number {
    const rate = numberOf(text);
    if (rate === 0) return 1;
    if (rate !== null && rate > 0) return Math.max(rate, rateMin);
    this.partProblems.push('invalid_rate');
    return 1;
  }

  #noteBadTags(count: number): void {
    for (let i = 0; i < count; i++) this.partProblems.push('malformed_tag');
  }
}

/** As Go reads it, but for hexadecimal ones; null for what is no number. */
export function numberOf(text: string): number | null {
  if (/^[-+]?(\d+(\.\d*)?|\.\d+)(e[-+]?\d+)?$/i.test(text)) {
    const value = Number(text);
    return Number.isFinite(value) ? value : null;
  }
  const word = /^([-+]?)(inf|infinity|nan)$/i.exec(text);
  if (word === null) return null;
  if (word[2]!.toLowerCase() === 'nan') return Number.NaN;
  return word[1] === '-' ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}
