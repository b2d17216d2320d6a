/**
 * Every key that a configuration may have, read off the schema: what docs/CONFIGURATION.md is held
 * to.
 */
import * as z from 'zod';
import { aggregatorSchema } from './aggregator_schema.ts';
import { coordinatorSchema } from './coordinator_schema.ts';
import { dbSchema } from './db_schema.ts';
import {
  type DocumentedKind,
  documentation,
  formatSize,
  hostByDiscovery,
  hostOfSingleNode,
} from './values.ts';
import { formatDurationNanos } from '../../time.ts';

export interface ConfigKey {
  /** Below the section: "commitlog.flushEvery"; "[]" stands for the entries of a list. */
  readonly path: string;
  /** 'withoutEffect': taken and noted; 'refused': stops the start unless it asks for nothing. */
  readonly kind: 'setting' | 'withoutEffect' | 'refused';
  /** Of a setting: its type in words, or "→ name" of a shared section. '' for others. */
  readonly type: string;
  /** As a user would write it; '' when there is none, "required" when it must be given. */
  readonly defaultText: string;
}

export interface ConfigKeySection {
  /** "db", "coordinator", "aggregator", or the name of a mapping that several places share. */
  readonly name: string;
  readonly keys: readonly ConfigKey[];
}

/** All sections: the three of files, then the shared ones in the order in which they are met. */
export function configKeySections(): readonly ConfigKeySection[] {
  const collector = new KeyCollector();
  collector.section('db', dbSchema);
  collector.section('coordinator', coordinatorSchema);
  collector.section('aggregator', aggregatorSchema);
  return collector.sections;
}

/** A schema without what is wrapped around it. */
interface Unwrapped {
  readonly schema: z.ZodType;
  readonly documented: DocumentedKind | null;
  readonly fallback: { readonly value: unknown } | null;
  readonly optional: boolean;
}

class KeyCollector {
  readonly sections: ConfigKeySection[] = [];

  section(name: string, schema: z.ZodType): void {
    if (this.sections.some((section) => section.name === name)) return;
    const keys: ConfigKey[] = [];
    this.sections.push({ name, keys });
    this.#mapping('', schema, keys);
  }

  #mapping(prefix: string, schema: z.ZodType, keys: ConfigKey[]): void {
    if (!(schema instanceof z.ZodObject)) throw new Error(`no mapping at ${prefix}`);
    for (const [name, value] of Object.entries(schema.shape)) {
      this.#key(`${prefix}${name}`, value as z.ZodType, keys);
    }
  }

  #key(path: string, given: z.ZodType, keys: ConfigKey[]): void {
    const { schema, documented, fallback, optional } = unwrap(given);
    if (documented?.kind === 'withoutEffect' || documented?.kind === 'refused') {
      keys.push({ path, kind: documented.kind, type: '', defaultText: '' });
    } else if (documented?.kind === 'shared') {
      keys.push({ path, kind: 'setting', type: `→ ${documented.name}`, defaultText: '' });
      this.section(documented.name, schema);
    } else if (documented?.kind === 'value') {
      const absent = optional ? '' : 'required';
      const defaultText = fallback === null ? absent : shown(fallback.value, documented);
      keys.push({ path, kind: 'setting', type: documented.type, defaultText });
    } else if (schema instanceof z.ZodArray) {
      const entry = unwrap(schema.element as z.ZodType);
      if (entry.documented?.kind === 'value') {
        const defaultText = optional || fallback !== null ? '' : 'required';
        keys.push({ path, kind: 'setting', type: `list of ${entry.documented.type}`, defaultText });
      } else {
        this.#mapping(`${path}[].`, entry.schema, keys);
      }
    } else if (schema instanceof z.ZodRecord) {
      // Keys are names that users give.
      this.#mapping(`${path}.*.`, schema.valueType as z.ZodType, keys);
    } else if (schema instanceof z.ZodLiteral) {
      const values = [...schema.values].map(String);
      const defaultText = fallback === null ? '' : String(fallback.value);
      keys.push({ path, kind: 'setting', type: values.join(', '), defaultText });
    } else {
      this.#mapping(`${path}.`, schema, keys);
    }
  }
}

export function unwrap(given: z.ZodType): Unwrapped {
  let schema = given;
  let fallback: Unwrapped['fallback'] = null;
  let optional = false;
  for (;;) {
    const documented = documentation.get(schema) ?? null;
    if (documented !== null) return { schema, documented, fallback, optional };
    if (schema instanceof z.ZodDefault) {
      fallback = { value: schema.def.defaultValue };
      schema = schema.def.innerType as z.ZodType;
    } else if (schema instanceof z.ZodOptional || schema instanceof z.ZodPrefault) {
      optional = true;
      schema = schema.def.innerType as z.ZodType;
    } else {
      return { schema, documented, fallback, optional };
    }
  }
}

function shown(value: unknown, { unit }: DocumentedKind & { kind: 'value' }): string {
  if (unit === 'duration') return formatDuration(value as number);
  if (unit === 'size') return formatSize(value as number);
  if (unit === 'address') {
    const { host, port } = value as { host: string; port: number };
    // The page says what it is in a cluster.
    return `${host === hostByDiscovery ? hostOfSingleNode : host}:${port}`;
  }
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** "5m", not "5m0s". */
function formatDuration(millis: number): string {
  const text = formatDurationNanos(BigInt(Math.round(millis * 1e6)));
  return text.replace(/([hm])0[ms]0?s?$/, '$1').replace(/([hm])0s$/, '$1');
}
