/** Namespaces as the exact JSON of the HTTP API, which is also kept in the key-value store. */
import { formatDurationNanos } from '#lib/time.ts';
import { Fields } from '../fields.ts';
import type { UnreadKeys } from '../unread_keys.ts';
import { namespaceOptionsOf, stagingStatusOf } from './request.ts';
import {
  type Namespace,
  type NamespaceOptions,
  type NamespaceRegistry,
  registryOf,
} from './namespaces.ts';
import { schemaToJson, type SchemaVersion } from './schemas.ts';

/** `registry` of the answers of namespace get, add and database/create. */
export interface RegistryJson {
  readonly namespaces: Record<string, unknown>;
}

/** Sorted by name. Every field is there; int64 are strings; what is not set is null. */
export function registryToJson(registry: NamespaceRegistry): RegistryJson {
  const sorted = [...registry.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  return {
    namespaces: Object.fromEntries(
      sorted.map(({ name, options, schemas }) => [
        name,
        { ...optionsToJson(options), schemaOptions: schemaOptionsToJson(schemas) },
      ]),
    ),
  };
}

/** As M3 has it, with the texts that were deployed in the place of descriptors; null without a schema. */
function schemaOptionsToJson(schemas: readonly SchemaVersion[] | undefined): object | null {
  const last = schemas?.at(-1);
  if (schemas === undefined || last === undefined) return null;
  return {
    history: { versions: schemas.map(schemaToJson) },
    defaultMessageName: last.messageName,
  };
}

/**
 * In the order of the registry, which needs no key of its own so: releases that know none keep the
 * namespaces sorted by name, and thereby their own order. (A name that is a whole number comes
 * before others in any object.)
 */
export function registryToStored(registry: NamespaceRegistry): RegistryJson {
  return {
    namespaces: Object.fromEntries(
      [...registry.values()].map(({ name, options }) => [name, optionsToJson(options)]),
    ),
  };
}

function optionsToJson(options: NamespaceOptions): Record<string, unknown> {
  const { retentionOptions: retention, indexOptions, aggregations } = options;
  return {
    bootstrapEnabled: options.bootstrapEnabled,
    flushEnabled: options.flushEnabled,
    writesToCommitLog: options.writesToCommitLog,
    cleanupEnabled: options.cleanupEnabled,
    repairEnabled: options.repairEnabled,
    retentionOptions: {
      retentionPeriodNanos: String(retention.retentionPeriodNanos),
      blockSizeNanos: String(retention.blockSizeNanos),
      bufferFutureNanos: String(retention.bufferFutureNanos),
      bufferPastNanos: String(retention.bufferPastNanos),
      blockDataExpiry: retention.blockDataExpiry,
      blockDataExpiryAfterNotAccessPeriodNanos: String(
        retention.blockDataExpiryAfterNotAccessPeriodNanos,
      ),
      futureRetentionPeriodNanos: String(retention.futureRetentionPeriodNanos),
    },
    snapshotEnabled: options.snapshotEnabled,
    indexOptions: {
      enabled: indexOptions.enabled,
      blockSizeNanos: String(indexOptions.blockSizeNanos),
    },
    schemaOptions: null,
    coldWritesEnabled: options.coldWritesEnabled,
    runtimeOptions: options.runtimeOptions,
    cacheBlocksOnRetrieve: options.cacheBlocksOnRetrieve,
    aggregationOptions:
      aggregations === null
        ? null
        : {
            aggregations: aggregations.map(({ aggregated, attributes }) => ({
              aggregated,
              attributes:
                attributes === null
                  ? null
                  : {
                      resolutionNanos: String(attributes.resolutionNanos),
                      downsampleOptions: attributes.downsampleOptions,
                    },
            })),
          },
    stagingState: { status: options.stagingStatus },
    extendedOptions: options.extendedOptions,
  };
}

/**
 * The form of `?debug=1`: keys `…Nanos` become `…Duration` with values as Go prints them
 * ("48h0m0s").
 * @param json any JSON value
 */
export function withDurations(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(withDurations);
  if (typeof json !== 'object' || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) =>
      key.endsWith('Nanos') && typeof value === 'string'
        ? [key.replace(/Nanos$/, 'Duration'), formatDurationNanos(BigInt(value))]
        : [key, withDurations(value)],
    ),
  );
}

/**
 * The registry as it is stored.
 * @param unread gets the keys that this version does not know
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function registryFromJson(json: unknown, unread: UnreadKeys[]): NamespaceRegistry {
  const fields = Fields.ofStored(json, 'registry', unread);
  const namespaces = fields.record('namespaces', (item, name): Namespace => {
    const stagingStatus = stagingStatusOf(item);
    return { name, options: { ...namespaceOptionsOf(item), stagingStatus } };
  });
  fields.end();
  return registryOf(namespaces);
}
