/** What has to hold of a metric family: its metadata, then its samples, of which those of one label set follow each other. */
import { metricTypes } from '#engine/typed/metadata.ts';
import { type ToldMetadata, toldMetadata } from '#engine/write_decoder/told_metadata.ts';
import { HistogramPoints } from './histogram.ts';
import { type Label, numberOfLabel, type Sample, unescaped } from './sample.ts';

/** By type, what stands behind the family's name in names of samples. */
const suffixesOf: ReadonlyMap<string, readonly string[]> = new Map([
  ['counter', ['_total', '_created']],
  ['gauge', ['']],
  ['gaugehistogram', ['_bucket', '_gcount', '_gsum']],
  ['histogram', ['_bucket', '_count', '_sum', '_created']],
  ['info', ['_info']],
  ['stateset', ['']],
  ['summary', ['', '_count', '_sum', '_created']],
  ['unknown', ['']],
]);

/** Of samples that count or add something. */
const countingSuffixes = ['_total', '_sum', '_count', '_bucket', '_gcount', '_gsum'];
const wholeSuffixes = ['_bucket', '_count', '_gcount'];

export const metadataKinds = ['HELP', 'TYPE', 'UNIT'] as const;
export type MetadataKind = (typeof metadataKinds)[number];

export class Family {
  readonly name: string;
  readonly #metadata = new Map<MetadataKind, string>();
  readonly #groups = new Set<string>();
  readonly #histogram = new HistogramPoints();
  #hasSamples = false;
  #group: string | null = null;
  #time: number | null = null;
  /** Samples of the group with that time. */
  #atTime = new Set<string>();

  constructor(name: string) {
    this.name = name;
  }

  get #type(): string {
    return this.#metadata.get('TYPE') ?? 'unknown';
  }

  /** Null where nothing was said of it. */
  get told(): ToldMetadata | null {
    if (this.#metadata.size === 0) return null;
    const type = metricTypes.find((known) => known === this.#type)!;
    const help = unescaped(this.#metadata.get('HELP') ?? '');
    return toldMetadata(this.name, type, help, this.#metadata.get('UNIT') ?? '');
  }

  /** All that its samples may be called, and its own name. */
  get names(): ReadonlySet<string> {
    const ofSamples = suffixesOf.get(this.#type)!.map((suffix) => this.name + suffix);
    return new Set([this.name, ...ofSamples]);
  }

  takes(sampleName: string): boolean {
    if (!sampleName.startsWith(this.name)) return false;
    return suffixesOf.get(this.#type)!.includes(sampleName.slice(this.name.length));
  }

  /** @returns what is wrong, or null; of each method */
  describe(kind: MetadataKind, text: string): string | null {
    if (this.#hasSamples) return `${kind} of ${this.name} comes behind its samples`;
    if (this.#metadata.has(kind)) return `a second ${kind} of ${this.name}`;
    if (kind === 'TYPE' && !suffixesOf.has(text)) {
      return `none of the types ${[...suffixesOf.keys()].join(', ')}`;
    }
    this.#metadata.set(kind, text);
    return null;
  }

  add(sample: Sample): string | null {
    this.#hasSamples = true;
    const suffix = sample.name.slice(this.name.length);
    return (
      this.#labelProblem(sample, suffix) ??
      this.#valueProblem(sample, suffix) ??
      this.#orderProblem(sample, suffix)
    );
  }

  /** Of the family as a whole, when its last line was read. */
  end(): string | null {
    const unit = this.#metadata.get('UNIT') ?? '';
    if (unit !== '') {
      if (!this.name.endsWith(`_${unit}`)) return 'its name does not end with its unit';
      if (['info', 'stateset'].includes(this.#type)) return `no ${this.#type} has a unit`;
    }
    return this.#histogram.end();
  }

  #labelProblem({ labels }: Sample, suffix: string): string | null {
    const type = this.#type;
    if (type === 'stateset' && labelOf(labels, this.name) === null) {
      return `a state has no label ${this.name}`;
    }
    if (suffix === '_bucket') {
      const bound = labelOf(labels, 'le');
      if (bound === null) return 'a bucket has no label le';
      const number = numberOfLabel(bound);
      if (number === null || Number.isNaN(number)) return 'le is not a number';
    }
    if (type === 'summary' && suffix === '') {
      const quantile = labelOf(labels, 'quantile');
      if (quantile === null) return 'a quantile has no label quantile';
      const number = numberOfLabel(quantile) ?? Number.NaN;
      if (!(number >= 0 && number <= 1)) return 'quantile is not a number between 0 and 1';
    }
    return null;
  }

  #valueProblem({ value, exemplar }: Sample, suffix: string): string | null {
    const type = this.#type;
    if (type === 'stateset' && value !== 0 && value !== 1) return 'a state is neither 0 nor 1';
    if (type === 'info' && value !== 1) return 'the value of an info is not 1';
    if (type === 'summary' && suffix === '' && value < 0) return 'a quantile is negative';
    if (countingSuffixes.includes(suffix)) {
      if (Number.isNaN(value)) return `${this.name}${suffix} is NaN`;
      if (value < 0 && suffix !== '_gsum') return `${this.name}${suffix} is negative`;
    }
    if (wholeSuffixes.includes(suffix) && !Number.isInteger(value)) {
      return `${this.name}${suffix} is not a whole number`;
    }
    const takesExemplar = suffix === '_bucket' || (type === 'counter' && suffix === '_total');
    if (exemplar !== null && !takesExemplar) return 'only buckets and counters have exemplars';
    return null;
  }

  #orderProblem(sample: Sample, suffix: string): string | null {
    const { name, labels, time } = sample;
    const left = this.#labelOfPlace(suffix);
    const group = groupOf(labels, left);
    if (group !== this.#group) {
      if (this.#groups.has(group)) return 'samples of one label set do not follow each other';
      this.#groups.add(group);
      this.#atTime.clear();
    } else {
      if ((time === null) !== (this.#time === null)) {
        return 'of samples of one label set some have a time, others have none';
      }
      if (time !== this.#time) this.#atTime.clear();
      if (time !== null && time < this.#time! && this.#type !== 'info') {
        return 'times of one label set go backwards';
      }
    }
    this.#group = group;
    this.#time = time;
    const key = `${name} ${groupOf(labels, null)}`;
    if (this.#atTime.has(key)) {
      // Times may be the same because they were cut.
      return time === null ? 'a sample is there twice' : null;
    }
    this.#atTime.add(key);
    if (!this.#type.endsWith('histogram')) return null;
    const bound = suffix === '_bucket' ? numberOfLabel(labelOf(labels, 'le')!) : null;
    return this.#histogram.add(sample, suffix, group, bound);
  }

  /** The label that tells samples of one point apart; null where there is none. */
  #labelOfPlace(suffix: string): string | null {
    switch (this.#type) {
      case 'info':
        return everyLabel;
      case 'stateset':
        return this.name;
      case 'summary':
        return suffix === '' ? 'quantile' : null;
      default:
        return suffix === '_bucket' ? 'le' : null;
    }
  }
}

/** No point of an info can be told from another one. */
const everyLabel = '*';

function groupOf(labels: readonly Label[], left: string | null): string {
  if (left === everyLabel) return '';
  const kept = labels.filter(({ name, value }) => name !== left && value !== '');
  return JSON.stringify(kept.map(({ name, value }) => [name, value]));
}

function labelOf(labels: readonly Label[], wanted: string): string | null {
  return labels.find(({ name }) => name === wanted)?.value ?? null;
}
