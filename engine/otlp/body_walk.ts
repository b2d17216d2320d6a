/** The walk over one body, which stops where a part is full and goes on there. */
import { encodeTags } from '#lib/tags.ts';
import { malformed, Places, Wire, wireType } from './wire/wire.ts';
import {
  attributeBytesMax,
  attributesIn,
  attributesTooLong,
  refusalOf,
  Refused,
  textAt,
} from './labels/attributes.ts';
import { check } from './wire/check.ts';
import { type Family, familyOf } from './labels/families.ts';
import {
  type Labels,
  type ResourceLabels,
  type Scope,
  tagsOf,
  targetInfoName,
} from './labels/labels.ts';
import * as layout from './wire/layout.ts';
import type { NamedType } from './labels/names.ts';
import { PartRows } from './points/part_rows.ts';
import { type PointContext, PointSeries } from './points/point_series.ts';
import { Points } from './points/points.ts';
import type { WriteDecoder } from '../write_decoder/write_decoder.ts';
import type { MetricType } from '../typed/metadata.ts';
import type {
  KnownResource,
  KnownScope,
  OtlpBody,
  OtlpKnown,
  OtlpPart,
  OtlpSetting,
} from './points/types.ts';

/** A longer body is checked first: so its lists are not longer than what is looked through at once. */
const uncheckedBytesMax: number = 1 << 20;

/** Samples of target_info of one resource in a body, the last ones. */
const targetInfosMax = 256;

/** What tells entries apart that stand below the same one. */
const resourceExtra = 1;
const scopeExtra = 2;
const schemaExtra = 3;
const targetExtra = 4;
const metricExtra = 16;

const noLabels: Labels = new Map();
const pointsKey = layout.data.points * 8 + wireType.bytes;

type Range = readonly [at: number, end: number];

/** Of a name or a unit; of what is kept of a description, and of a name that is refused. */
const textBytesMax = 1024;
const helpBytesMax = 4100;
/** Of name, description and unit together: a metric is known by them. */
const headerBytesMax: number = 16 << 10;
const shownBytesMax = 100;

function shortened([at, end]: Range, bytesMax: number): Range {
  return [at, Math.min(end, at + bytesMax)];
}

/** @throws {Refused} when it is too long */
function checked(range: Range, what: string): Range {
  const length = range[1] - range[0];
  if (length <= textBytesMax) return range;
  throw new Refused(`${what}: longer than ${textBytesMax} bytes: ${length}`);
}

export class BodyWalk implements OtlpBody {
  readonly #wire: Wire;
  readonly #known: OtlpKnown;
  readonly #setting: OtlpSetting;
  readonly #rows: PartRows;
  readonly #series: PointSeries;
  readonly #points: Points;
  #steps: Generator<void, void>;
  readonly #places = new Places();
  #isChecked = false;
  #isOver = false;

  #resourceRange: Range = [0, 0];
  #resourceEntry = 0;
  #resource: KnownResource = { problem: '' };
  #earliestMillis = Infinity;
  #latestMillis = 0;
  #scopeRange: Range = [0, 0];
  #schemaRange: Range = [0, 0];
  #scopeEntry = 0;
  #scope: KnownScope = { labels: noLabels };

  constructor(body: Uint8Array, decoder: WriteDecoder, known: OtlpKnown, setting: OtlpSetting) {
    this.#wire = new Wire(body);
    this.#known = known;
    this.#setting = setting;
    this.#rows = new PartRows(decoder);
    this.#series = new PointSeries(this.#wire, known, this.#rows);
    this.#points = new Points(this.#wire, this.#series, this.#rows, setting);
    this.#steps = this.#request();
  }

  next(): OtlpPart | 'unchecked' | null {
    if (this.#isOver) return null;
    if (!this.#isChecked && this.#wire.bytes.length > uncheckedBytesMax) return 'unchecked';
    const { cache, families, problems, resources, scopes } = this.#known;
    if (cache.makeRoom()) for (const each of [families, problems, resources, scopes]) each.clear();
    cache.begin();
    this.#rows.begin();
    try {
      this.#isOver = this.#steps.next().done === true;
    } catch (error) {
      this.#isOver = true;
      this.#rows.decoder.dropRows();
      throw error;
    }
    cache.end();
    const part = this.#rows.end();
    if (this.#isOver || this.#isChecked) return part;
    this.#rows.restart();
    this.#steps = this.#request();
    return 'unchecked';
  }

  async check(pause: (units: number) => Promise<void>): Promise<void> {
    await check(this.#wire.bytes, pause);
    this.#isChecked = true;
  }

  *#request(): Generator<void, void> {
    yield* this.#each([0, this.#wire.bytes.length], 1, (range) => this.#resourceMetrics(range));
  }

  /** Messages of a field of the message in a range, one after the other. */
  *#each(
    [from, end]: Range,
    number: number,
    walk: (range: Range) => Generator<void, void>,
  ): Generator<void, void> {
    const wire = this.#wire;
    for (let at = from; at < end; ) {
      const key = wire.varint(at, end);
      if (key !== number * 8 + wireType.bytes) {
        if (key < 8 || Math.floor(key / 8) === number) throw malformed();
        at = wire.skip(wire.at, end, key % 8);
        continue;
      }
      const length = wire.length(wire.at, end);
      at = wire.at + length;
      yield* walk([wire.at, at]);
    }
  }

  *#resourceMetrics(range: Range): Generator<void, void> {
    const { resource, scopeMetrics } = layout.resourceMetrics;
    this.#places.read(this.#wire, range[0], range[1], layout.resourceMetricsTypes);
    this.#resourceRange = this.#one(resource);
    this.#earliestMillis = Infinity;
    this.#latestMillis = 0;
    this.#enterResource();
    yield* this.#each(range, scopeMetrics, (each) => this.#scopeMetrics(each));
    this.#tellTarget();
  }

  /** The value of a field that stands once at most. */
  #one(number: number): Range {
    const places = this.#places;
    if (!places.has(number)) return [0, 0];
    if (places.count[number]! > 1) throw malformed();
    return [places.value[number]!, places.end[number]!];
  }

  #enterResource(): void {
    const { resources } = this.#known;
    const [at, end] = this.#resourceRange;
    if (end - at > attributeBytesMax) {
      this.#resourceEntry = 0;
      this.#resource = { problem: `resource: ${attributesTooLong(end - at)}` };
      return;
    }
    this.#resourceEntry = this.#series.part(0, resourceExtra, at, end);
    let known = resources.get(this.#resourceEntry);
    if (known === undefined) {
      known = this.#resourceAt(at, end);
      resources.set(this.#resourceEntry, known);
    }
    this.#resource = known;
  }

  #resourceAt(at: number, end: number): KnownResource {
    try {
      const attributes = attributesIn(this.#wire, at, end, layout.resourceAttributes);
      return { labels: this.#known.labels.ofResource(attributes) };
    } catch (error) {
      return { problem: `resource: ${refusalOf(error)}` };
    }
  }

  *#scopeMetrics(range: Range): Generator<void, void> {
    const { metrics, schemaUrl, scope } = layout.scopeMetrics;
    this.#places.read(this.#wire, range[0], range[1], layout.scopeMetricsTypes);
    this.#scopeRange = this.#one(scope);
    this.#schemaRange = this.#one(schemaUrl);
    this.#enterScope();
    yield* this.#each(range, metrics, (each) => this.#metric(each));
  }

  #enterScope(): void {
    this.#scopeEntry = this.#resourceEntry;
    if (!this.#setting.promotesScope) return;
    const [at, end] = this.#scopeRange;
    const bytes = end - at + this.#schemaRange[1] - this.#schemaRange[0];
    if (bytes > attributeBytesMax) {
      this.#scope = { problem: `scope: ${attributesTooLong(bytes)}` };
      return;
    }
    const { scopes } = this.#known;
    const ofSchema = this.#series.part(this.#resourceEntry, schemaExtra, ...this.#schemaRange);
    this.#scopeEntry = this.#series.part(ofSchema, scopeExtra, ...this.#scopeRange);
    let known = scopes.get(this.#scopeEntry);
    if (known === undefined) {
      known = this.#scopeAt(...this.#scopeRange);
      scopes.set(this.#scopeEntry, known);
    }
    this.#scope = known;
  }

  #scopeAt(at: number, end: number): KnownScope {
    const wire = this.#wire;
    const places = new Places();
    try {
      places.read(wire, at, end, layout.scopeTypes);
      const text = (number: number): string =>
        places.has(number)
          ? textAt(wire, places.value[number]!, places.end[number]!, 'a text')
          : '';
      const scope: Scope = {
        name: text(layout.scope.name),
        version: text(layout.scope.version),
        schemaUrl: textAt(wire, ...this.#schemaRange, 'schema_url'),
        attributes: attributesIn(wire, at, end, layout.scope.attributes),
      };
      return { labels: this.#known.labels.ofScope(scope) };
    } catch (error) {
      return { problem: `scope: ${refusalOf(error)}` };
    }
  }

  *#metric(range: Range): Generator<void, void> {
    const places = this.#places;
    places.read(this.#wire, range[0], range[1], layout.metricTypes);
    const kinds = layout.kinds.filter((number) => places.has(number));
    if (kinds.length === 0) return;
    if (kinds.length > 1) throw malformed();
    const kind = kinds[0]!;
    const data = this.#one(kind);
    const header = this.#header();
    const facts = this.#dataFacts(data);
    let context = this.#enterMetric(header, kind, facts);
    for (let [at, end] = data; at < end; ) {
      at = this.#takePoints(kind, context, at, end);
      if (at === end) return;
      yield;
      // Others have used what is known meanwhile.
      this.#enterResource();
      this.#enterScope();
      context = this.#enterMetric(header, kind, facts);
    }
  }

  /** Where name, description and unit stand; what else is among them belongs to it. */
  #header(): { readonly range: Range; readonly texts: readonly Range[] } {
    const places = this.#places;
    const texts: Range[] = [];
    let [start, end] = [Infinity, 0];
    for (const number of Object.values(layout.metric)) {
      texts.push(this.#one(number));
      if (!places.has(number)) continue;
      start = Math.min(start, places.first[number]!);
      end = Math.max(end, places.end[number]!);
    }
    return { range: start < end ? [start, end] : [0, 0], texts };
  }

  /** Temporality, and what a sum is. */
  #dataFacts([at, end]: Range): { readonly temporality: number; readonly isMonotonic: boolean } {
    const places = this.#places;
    places.read(this.#wire, at, end, layout.dataTypes);
    const { temporality, isMonotonic } = layout.data;
    const varint = (number: number): number =>
      places.has(number) ? this.#wire.varint(places.value[number]!, end) : 0;
    return {
      temporality: Math.min(varint(temporality), 15),
      isMonotonic: varint(isMonotonic) !== 0,
    };
  }

  #enterMetric(
    { range, texts }: { readonly range: Range; readonly texts: readonly Range[] },
    kind: number,
    facts: { readonly temporality: number; readonly isMonotonic: boolean },
  ): PointContext {
    const { families } = this.#known;
    const { temporality, isMonotonic } = facts;
    const headerBytes = range[1] - range[0];
    if (headerBytes > headerBytesMax) {
      const family = this.#familyOf(texts, kind, temporality, isMonotonic);
      const problem = `name, description and unit: longer than ${headerBytesMax} bytes: ${headerBytes}`;
      return { ...nowhere, family: { ...family, problem } };
    }
    const extra = metricExtra + kind * 64 + temporality * 2 + (isMonotonic ? 1 : 0);
    const entry = this.#series.part(this.#scopeEntry, extra, ...range);
    let family = families.get(entry);
    if (family === undefined) {
      family = this.#familyOf(texts, kind, temporality, isMonotonic);
      families.set(entry, family);
    }
    const [resource, scope] = [this.#resource, this.#scope];
    const problem =
      'problem' in resource ? resource.problem : 'problem' in scope ? scope.problem : '';
    if (problem !== '') family = { ...family, problem };
    else if (family.problem === '') this.#rows.noteFamily(family);
    return {
      entry,
      family,
      resource: 'labels' in resource ? resource.labels : noResource,
      scope: 'labels' in scope ? scope.labels : noLabels,
    };
  }

  #familyOf(
    [nameRange, helpRange, unitRange]: readonly Range[],
    kind: number,
    temporality: number,
    isMonotonic: boolean,
  ): Family {
    const wire = this.#wire;
    const { names } = this.#known;
    const isSum = kind === layout.kind.sum;
    const isDelta = temporality === layout.temporality.delta;
    const type: MetricType =
      isDelta && hasTemporality(kind) ? 'unknown' : typeOf(kind, isMonotonic);
    const given = wire.buffer.toString('utf8', ...shortened(nameRange!, shownBytesMax));
    try {
      const fullName = textAt(wire, ...checked(nameRange!, 'name'), 'name');
      const unit = textAt(wire, ...checked(unitRange!, 'unit'), 'unit');
      const help = wire.buffer.toString('utf8', ...shortened(helpRange!, helpBytesMax));
      const namedType: NamedType =
        isSum && isMonotonic ? 'counter' : kind === layout.kind.gauge ? 'gauge' : 'other';
      const name = names.metric(fullName, unit, namedType);
      const problem =
        name === ''
          ? `name: no metric can have it: ${JSON.stringify(given)}`
          : this.#temporalityProblem(kind, temporality);
      return familyOf(name || given, type, help, names.unit(unit), isDelta, problem);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return familyOf(given, type, '', '', isDelta, error.message);
    }
  }

  #temporalityProblem(kind: number, temporality: number): string {
    if (!hasTemporality(kind) || temporality === layout.temporality.cumulative) return '';
    if (temporality !== layout.temporality.delta) {
      return `aggregation_temporality: neither delta nor cumulative: ${temporality}`;
    }
    if (this.#setting.storesDeltas) return '';
    return 'aggregation_temporality: delta is not stored here (coordinator.otlp.deltaTemporality: refuse)';
  }

  /** Takes points until the part is full. @returns where it goes on */
  #takePoints(kind: number, context: PointContext, at: number, end: number): number {
    const wire = this.#wire;
    const { problem, name } = context.family;
    const isSum = kind === layout.kind.sum;
    const isNumbers = (isSum || kind === layout.kind.gauge) && problem === '';
    while (at < end) {
      if (isNumbers) {
        const from = at;
        at = this.#series.takeNumbers(context.entry, from, end, isSum);
        if (at > from) {
          this.#noteMillis(this.#series.earliestMillis);
          this.#noteMillis(this.#series.latestMillis);
          if (this.#rows.isFull) return at;
          continue;
        }
      }
      const key = wire.varint(at, end);
      if (key !== pointsKey) {
        at = wire.skip(wire.at, end, key % 8);
        continue;
      }
      const length = wire.length(wire.at, end);
      const pointAt = wire.at;
      at = pointAt + length;
      if (problem === '') {
        const millis = this.#points.take(kind, context, pointAt, at);
        if (millis !== 0) this.#noteMillis(millis);
      } else {
        this.#rows.refuse(name, problem);
        this.#rows.endPoint();
      }
      if (this.#rows.isFull) return at;
    }
    return at;
  }

  #noteMillis(millis: number): void {
    if (millis < this.#earliestMillis) this.#earliestMillis = millis;
    if (millis > this.#latestMillis) this.#latestMillis = millis;
  }

  /** Says of the resource what it is, from its first point to its last one. */
  #tellTarget(): void {
    if (this.#latestMillis === 0 || 'problem' in this.#resource) return;
    const { targetInfo } = this.#resource.labels;
    if (targetInfo === null) return;
    const { cache } = this.#known;
    const { decoder } = this.#rows;
    const entry = this.#series.part(this.#resourceEntry, targetExtra, 0, 0);
    if (cache.slotCount(entry) === 0) cache.reserveSlots(entry, 1);
    let slot = cache.slot(entry, 0);
    const generation = cache.generation(entry, 0);
    if (generation === 0 || !decoder.use(slot, generation)) {
      const tags = encodeTags(tagsOf(targetInfo, []));
      slot = decoder.slotOf(tags);
      cache.setSlot(entry, 0, slot, decoder.generation[slot]!);
      this.#rows.noteNew(tags.length);
    }
    const stepMillis = Math.max(1, Math.floor(this.#setting.lookbackMillis / 2));
    const first = Math.max(
      this.#earliestMillis,
      this.#latestMillis - (targetInfosMax - 1) * stepMillis,
    );
    for (let millis = first; millis < this.#latestMillis; millis += stepMillis) {
      this.#rows.addInfo(slot, millis);
    }
    this.#rows.addInfo(slot, this.#latestMillis);
    this.#rows.noteFamily(targetFamily);
  }
}

const targetFamily: Family = familyOf(targetInfoName, 'gauge', 'Target metadata', '', false, '');

const noResource: ResourceLabels = { promoted: noLabels, identity: noLabels, targetInfo: null };
/** Of points that are refused. */
const nowhere = { entry: 0, resource: noResource, scope: noLabels };

function hasTemporality(kind: number): boolean {
  return (
    kind === layout.kind.sum || kind === layout.kind.histogram || kind === layout.kind.exponential
  );
}

function typeOf(kind: number, isMonotonic: boolean): MetricType {
  switch (kind) {
    case layout.kind.gauge:
      return 'gauge';
    case layout.kind.sum:
      return isMonotonic ? 'counter' : 'gauge';
    case layout.kind.summary:
      return 'summary';
    default:
      return 'histogram';
  }
}
