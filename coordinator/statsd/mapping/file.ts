/** The mapping of a configuration (`coordinator.statsd.ingester.mapping`): what statsd_exporter has in its file. */
import { Fields } from '#cluster/fields.ts';
import { badRequest, shownText } from '#lib/errors.ts';
import { SearchRegexp } from '#lib/regexp/regexp.ts';
import type {
  Mapping,
  MappingRule,
  MetricSettings,
  ObserverOptions,
  RuleMatch,
} from './mapping.ts';

/** More are refused. */
export const rulesMax = 100_000;
/** Of a glob, and of what it is held against. */
export const componentsMax = 128;

const quantilesUsually = [0.5, 0.9, 0.99];
const maxAgeMillisUsually = 600_000;
const boundsUsually = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];
const boundsMax = 1000;

const defaultSettings: MetricSettings = {
  observer: { type: 'summary', quantiles: quantilesUsually, maxAgeMillis: maxAgeMillisUsually },
  ttlMillis: 0,
  honorsLabels: false,
  scale: 1,
};

export const noMapping: Mapping = { rules: [], isOrdered: true, defaults: defaultSettings };

/** What a rule may leave to the defaults. */
interface Given {
  readonly type: 'summary' | 'histogram' | null;
  readonly quantiles: readonly number[] | null;
  readonly maxAgeMillis: number | null;
  readonly bounds: readonly number[] | null;
  readonly ttlMillis: number | null;
  readonly honorsLabels: boolean;
  readonly scale: number | null;
}

/**
 * @param value an object as of YAML or JSON; undefined for none
 * @param path of it in what it came with
 * @throws {TsdbError} BAD_REQUEST naming field, reason and value
 */
export function mappingOf(value: unknown, path: string): Mapping {
  if (value === undefined) return noMapping;
  const fields = Fields.of(value, path);
  const defaultFields = fields.object('defaults');
  let isOrdered = true;
  let matchType: 'glob' | 'regex' = 'glob';
  let defaults = defaultSettings;
  let given: Given = nothingGiven;
  if (defaultFields !== null) {
    matchType = defaultFields.oneOf('matchType', ['glob', 'regex'], 'glob');
    isOrdered = !defaultFields.boolean('globDisableOrdering', false);
    given = givenOf(defaultFields);
    defaultFields.end();
    defaults = settingsOf(given, nothingGiven);
  }
  const rules = fields.list('mappings', (each) => ruleOf(each, matchType, given));
  fields.end();
  if (rules.length > rulesMax) throw fields.bad('mappings', `more than ${rulesMax}`, rules.length);
  return { rules, isOrdered, defaults };
}

function ruleOf(fields: Fields, matchTypeUsually: 'glob' | 'regex', defaults: Given): MappingRule {
  const text = fields.string('match', '');
  const type = fields.oneOf('matchType', ['glob', 'regex'], matchTypeUsually);
  const kind = fields.oneOf('matchMetricType', ['', 'counter', 'gauge', 'observer', 'timer'], '');
  const isDrop = fields.oneOf('action', ['map', 'drop'], 'map') === 'drop';
  const name = fields.string('name', '');
  fields.string('help', '');
  const labels = labelsOf(fields);
  const settings = settingsOf(givenOf(fields), defaults);
  const match = type === 'glob' ? globOf(fields, text) : regexOf(fields, text);
  fields.end();
  if (!isDrop && name === '') throw fields.bad('name', 'a rule that maps needs one', name);
  if (!/^([a-zA-Z_:$]|\$\{)[a-zA-Z0-9_:${}]*$/.test(name) && !isDrop) {
    throw fields.bad('name', 'no name of a metric', name);
  }
  const kindOrAll = kind === '' ? null : kind === 'timer' ? 'observer' : kind;
  return { match, kind: kindOrAll, isDrop, name, labels, settings };
}

function globOf(fields: Fields, text: string): RuleMatch {
  const components = text.split('.');
  if (components.length > componentsMax) {
    throw fields.bad('match', `more than ${componentsMax} components`, text);
  }
  for (const component of components) {
    if (component === '') throw fields.bad('match', 'a component of a glob is empty', text);
    if (component !== '*' && component.includes('*')) {
      throw fields.bad('match', '"*" stands for a whole component', text);
    }
  }
  return { type: 'glob', components };
}

function regexOf(fields: Fields, text: string): RuleMatch {
  if (text === '') throw fields.bad('match', 'it is empty', text);
  try {
    return { type: 'regex', regexp: new SearchRegexp(text) };
  } catch (error) {
    throw badRequest(`${fields.path}.match: ${shownText((error as Error).message)}`);
  }
}

function labelsOf(fields: Fields): [name: string, value: string][] {
  const value = fields.any('labels');
  if (value === undefined) return [];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw fields.bad('labels', 'not an object', value);
  }
  return Object.entries(value).map(([name, text]) => {
    if (!/^[a-zA-Z_][a-zA-Z0-9_]*$/.test(name) || name.startsWith('__')) {
      throw fields.bad('labels', 'no name of a label', name);
    }
    if (typeof text !== 'string') throw fields.bad(`labels.${name}`, 'not a text', text);
    return [name, text];
  });
}

const nothingGiven: Given = {
  type: null,
  quantiles: null,
  maxAgeMillis: null,
  bounds: null,
  ttlMillis: null,
  honorsLabels: false,
  scale: null,
};

function givenOf(fields: Fields): Given {
  const types = ['', 'summary', 'histogram'] as const;
  // The names before the last in each line are those of earlier releases of statsd_exporter.
  const type = fields.oneOf('timerType', types, '') || fields.oneOf('observerType', types, '');
  const summary = fields.object('summaryOptions');
  const quantiles = quantilesOf(fields) ?? (summary === null ? null : quantilesOf(summary));
  const maxAgeMillis = summary === null ? null : millisOf(summary, 'maxAge');
  summary?.uint('ageBuckets', 0);
  summary?.uint('bufCap', 0);
  summary?.end();
  const histogram = fields.object('histogramOptions');
  const bounds = boundsOf(fields) ?? (histogram === null ? null : boundsOf(histogram));
  if (histogram !== null) {
    for (const key of ['nativeHistogramBucketFactor', 'nativeHistogramMaxBuckets']) {
      const value = histogram.float(key);
      if (value !== null && value !== 0)
        throw histogram.bad(key, 'native histograms are not made of statsd', value);
    }
    histogram.end();
  }
  return {
    type: type === '' ? null : type,
    quantiles,
    maxAgeMillis,
    bounds,
    ttlMillis: millisOf(fields, 'ttl'),
    honorsLabels: fields.boolean('honorLabels', false),
    scale: fields.float('scale'),
  };
}

function settingsOf(given: Given, defaults: Given): MetricSettings {
  const type = given.type ?? defaults.type ?? 'summary';
  const observer: ObserverOptions =
    type === 'summary'
      ? {
          type,
          quantiles: given.quantiles ?? defaults.quantiles ?? quantilesUsually,
          maxAgeMillis: given.maxAgeMillis ?? defaults.maxAgeMillis ?? maxAgeMillisUsually,
        }
      : { type, bounds: given.bounds ?? defaults.bounds ?? boundsUsually };
  return {
    observer,
    ttlMillis: given.ttlMillis ?? defaults.ttlMillis ?? 0,
    honorsLabels: given.honorsLabels || defaults.honorsLabels,
    scale: given.scale ?? defaults.scale ?? 1,
  };
}

/** Their errors are passed over: all are to within a hundredth. */
function quantilesOf(fields: Fields): readonly number[] | null {
  const quantiles = fields.list('quantiles', (each) => {
    const quantile = each.float('quantile') ?? Number.NaN;
    each.float('error');
    each.end();
    if (!(quantile >= 0 && quantile <= 1))
      throw each.bad('quantile', 'not a number from 0 to 1', quantile);
    return quantile;
  });
  return quantiles.length === 0 ? null : quantiles;
}

function boundsOf(fields: Fields): readonly number[] | null {
  const value = fields.any('buckets');
  if (value === undefined) return null;
  const isList = Array.isArray(value) && value.every((each) => typeof each === 'number');
  if (!isList) throw fields.bad('buckets', 'not a list of numbers', value);
  const bounds = (value as number[]).filter((each) => each !== Number.POSITIVE_INFINITY);
  if (bounds.length > boundsMax)
    throw fields.bad('buckets', `more than ${boundsMax}`, bounds.length);
  for (const [place, bound] of bounds.entries()) {
    if (place > 0 && !(bound > bounds[place - 1]!))
      throw fields.bad(`buckets[${place}]`, 'not above the one before', bound);
  }
  return bounds.length === 0 ? null : bounds;
}

/** A duration, or seconds as Go's YAML has them not: 0 is a number, too. */
function millisOf(fields: Fields, key: string): number | null {
  const value = fields.any(key);
  if (value === undefined) return null;
  if (value === 0) return 0;
  const duration = Fields.of({ [key]: value }, fields.path).duration(key);
  if (duration === null || duration < 0n) throw fields.bad(key, 'not a time', value);
  return Number(duration / 1_000_000n);
}
