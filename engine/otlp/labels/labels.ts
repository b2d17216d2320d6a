/** Labels of series that come by OTLP, as Prometheus' receiver makes them of a resource, a scope, a metric and attributes. */
import { metricNameTag, type Tag } from '#lib/tags.ts';
import { compareTexts } from '#lib/text_order.ts';
import { type Attribute, Refused } from './attributes.ts';
import type { Names } from './names.ts';

/** What of it is decided by the configuration. */
export interface LabelSetting {
  readonly promotedAttributes: ReadonlySet<string>;
  /** All but `ignoredAttributes`. */
  readonly promotesAll: boolean;
  readonly ignoredAttributes: ReadonlySet<string>;
  readonly keepsIdentifying: boolean;
  readonly promotesScope: boolean;
  readonly typeAndUnitLabels: boolean;
}

export interface Scope {
  readonly name: string;
  readonly version: string;
  readonly schemaUrl: string;
  readonly attributes: readonly Attribute[];
}

export type Labels = ReadonlyMap<string, string>;

const serviceNamespace = 'service.namespace';
const serviceName = 'service.name';
const serviceInstance = 'service.instance.id';
const identifying: ReadonlySet<string> = new Set([serviceNamespace, serviceName, serviceInstance]);

export const targetInfoName = 'target_info';

/** Of a resource. */
export interface ResourceLabels {
  /** For series that have no label of the name. */
  readonly promoted: Labels;
  /** `job` and `instance`. */
  readonly identity: Labels;
  /** Null where the series would say nothing, or of nobody. */
  readonly targetInfo: Labels | null;
}

export class LabelMaker {
  readonly #names: Names;
  readonly #setting: LabelSetting;
  /** By key: attributes have few. */
  readonly #known = new Map<string, string>();

  constructor(names: Names, setting: LabelSetting) {
    this.#names = names;
    this.#setting = setting;
  }

  /** @throws {Refused} */
  ofResource(attributes: readonly Attribute[]): ResourceLabels {
    const { promotesAll, promotedAttributes, ignoredAttributes, keepsIdentifying } = this.#setting;
    const promoted = new Map<string, string>();
    const values = new Map<string, string>();
    for (const { key, value } of attributes) {
      values.set(key, value);
      const isPromoted = promotesAll ? !ignoredAttributes.has(key) : promotedAttributes.has(key);
      if (isPromoted) promoted.set(this.#label(key), value);
    }
    const identity = new Map<string, string>();
    const [namespace, name] = [values.get(serviceNamespace), values.get(serviceName)];
    if (name !== undefined)
      identity.set('job', namespace === undefined ? name : `${namespace}/${name}`);
    const instance = values.get(serviceInstance);
    if (instance !== undefined) identity.set('instance', instance);
    for (const [label, value] of identity) if (value === '') identity.delete(label);
    const isSaying = attributes.some(({ key }) => !identifying.has(key));
    const told = keepsIdentifying
      ? attributes
      : attributes.filter(({ key }) => !identifying.has(key));
    let targetInfo: Map<string, string> | null = null;
    if (isSaying && identity.size > 0) {
      targetInfo = this.#joined(told);
      for (const [label, value] of identity) targetInfo.set(label, value);
      targetInfo.set(metricNameTag, targetInfoName);
    }
    return { promoted, identity, targetInfo };
  }

  /** @throws {Refused} */
  ofScope({ name, version, schemaUrl, attributes }: Scope): Labels {
    const labels = new Map<string, string>();
    if (!this.#setting.promotesScope || name === '') return labels;
    for (const { key, value } of attributes) labels.set(this.#label(`otel_scope_${key}`), value);
    labels.set('otel_scope_name', name);
    labels.set('otel_scope_version', version);
    labels.set('otel_scope_schema_url', schemaUrl);
    return labels;
  }

  /**
   * All but the name of the metric, and what tells the series of one point apart. A label with an empty value is none.
   * @throws {Refused}
   */
  ofPoint(
    attributes: readonly Attribute[],
    { promoted, identity }: ResourceLabels,
    scope: Labels,
    { type, unit }: { readonly type: string; readonly unit: string },
  ): Map<string, string> {
    const labels = this.#joined(attributes);
    for (const [label, value] of promoted) if (!labels.get(label)) labels.set(label, value);
    for (const [label, value] of identity) labels.set(label, value);
    for (const [label, value] of scope) labels.set(label, value);
    if (this.#setting.typeAndUnitLabels) {
      if (type !== 'unknown') labels.set('__type__', type);
      if (unit !== '') labels.set('__unit__', unit);
    }
    return labels;
  }

  /** Values of attributes that come to one name are joined, in the order of their keys. */
  #joined(attributes: readonly Attribute[]): Map<string, string> {
    const labels = new Map<string, string>();
    const sorted = attributes.toSorted((a, b) => compareTexts(a.key, b.key));
    for (const { key, value } of sorted) {
      if (key === metricNameTag) continue;
      const label = this.#label(key);
      const before = labels.get(label);
      labels.set(label, before ? `${before};${value}` : value);
    }
    return labels;
  }

  #label(key: string): string {
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    const label = this.#names.label(key);
    if (label === '') {
      throw new Refused(
        `attributes: no label can have the name of the key: ${JSON.stringify(key)}`,
      );
    }
    if (this.#known.size === knownMax) this.#known.clear();
    this.#known.set(key, label);
    return label;
  }
}

const knownMax = 4096;

/** Labels that have a value, with others over them. */
export function tagsOf(labels: Labels, more: readonly Tag[]): Tag[] {
  const tags = more.filter(({ value }) => value !== '');
  for (const [name, value] of labels) {
    if (value !== '' && !more.some((tag) => tag.name === name)) tags.push({ name, value });
  }
  return tags;
}
