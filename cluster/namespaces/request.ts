/**
 * Requests of the namespace endpoints, read into options. Nothing is defaulted on add: an omitted
 * boolean is false and an omitted duration 0, as M3's users know it; database/create has defaults
 * of its own.
 */
import { badRequest } from '#lib/errors.ts';
import { Fields } from '../fields.ts';
import { checkNoCompanion } from './companions.ts';
import type { NamespaceUpdate } from './changes.ts';
import type {
  Aggregation,
  ExtendedOptions,
  Namespace,
  NamespaceOptions,
  RetentionOptions,
  RuntimeOptions,
  StagingStatus,
} from './namespaces.ts';

/**
 * Body of namespace add: `{name, options}`.
 * @throws {TsdbError} BAD_REQUEST naming the field
 */
export function namespaceOfAddRequest(body: unknown): Namespace {
  const fields = Fields.of(body, '');
  const name = fields.string('name', '');
  if (name === '') throw badRequest('missing required field: name');
  checkNoCompanion(name);
  const options = fields.object('options');
  fields.end();
  if (options === null) throw badRequest('missing required field: options');
  // What a client copied from an answer is taken, but a new namespace starts at the beginning.
  stagingStatusOf(options);
  return { name, options: namespaceOptionsOf(options) };
}

/** Reads all options but the staging state, of a request or a stored value, and ends the object. */
export function namespaceOptionsOf(fields: Fields): NamespaceOptions {
  const retention = fields.object('retentionOptions');
  if (retention === null) {
    throw badRequest('bad namespace metadata: retention options must be set');
  }
  const indexOptions = indexOptionsOf(fields);
  if (fields.has('schemaOptions') && !fields.isStored) {
    throw badRequest('options.schemaOptions: a schema cannot be given with the namespace');
  }
  fields.constant('schemaOptions', null);
  const retentionOptions = retentionOptionsOf(retention);
  const options: NamespaceOptions = {
    bootstrapEnabled: fields.boolean('bootstrapEnabled', false),
    flushEnabled: fields.boolean('flushEnabled', false),
    writesToCommitLog: fields.boolean('writesToCommitLog', false),
    cleanupEnabled: fields.boolean('cleanupEnabled', false),
    repairEnabled: fields.boolean('repairEnabled', false),
    retentionOptions,
    snapshotEnabled: fields.boolean('snapshotEnabled', false),
    indexOptions: {
      enabled: indexOptions.enabled,
      blockSizeNanos: indexOptions.blockSizeNanos ?? retentionOptions.blockSizeNanos,
    },
    coldWritesEnabled: fields.boolean('coldWritesEnabled', false),
    runtimeOptions: runtimeOptionsOf(fields),
    cacheBlocksOnRetrieve: fields.boolean('cacheBlocksOnRetrieve', false),
    aggregations: aggregationsOf(fields),
    stagingStatus: 'UNKNOWN',
    extendedOptions: extendedOptionsOf(fields),
  };
  fields.end();
  return options;
}

/** Every series is found by its tags: there is no namespace without an index. */
function indexOptionsOf(fields: Fields): {
  readonly enabled: boolean;
  readonly blockSizeNanos: bigint | null;
} {
  const index = fields.object('indexOptions');
  if (fields.isStored) {
    const enabled = index?.boolean('enabled', false) ?? false;
    const blockSizeNanos = index?.nanos('blockSize') ?? 0n;
    index?.end();
    return { enabled, blockSizeNanos };
  }
  if (index?.boolean('enabled', true) === false) {
    throw index.bad('enabled', 'a namespace without an index is not supported', false);
  }
  const blockSizeNanos = index?.nanos('blockSize') ?? null;
  index?.end();
  return { enabled: true, blockSizeNanos };
}

/** Settings that are stored by earlier releases and change nothing are refused where they are new. */
function refuseWithoutEffect(fields: Fields, key: string, value: unknown, why: string): void {
  if (fields.isStored || value === null || value === 0n) return;
  throw fields.bad(key, `not supported: ${why}`, typeof value === 'bigint' ? String(value) : value);
}

export function stagingStatusOf(fields: Fields): StagingStatus {
  const staging = fields.object('stagingState');
  const status = staging?.oneOf('status', ['UNKNOWN', 'INITIALIZING', 'READY'], 'UNKNOWN');
  staging?.end();
  return status ?? 'UNKNOWN';
}

/**
 * Body of namespace update: `{name, options}` with mutable options only.
 * @throws {TsdbError} BAD_REQUEST naming the first field that cannot be changed
 */
export function updateOfRequest(body: unknown): { name: string; update: NamespaceUpdate } {
  const fields = Fields.of(body, '');
  const name = fields.string('name', '');
  if (name === '') throw badRequest('missing required field: name');
  const options = fields.object('options');
  fields.end();
  if (options === null) throw badRequest('missing required field: options');
  const retention = options.object('retentionOptions');
  const retentionPeriodNanos = retention?.nanos('retentionPeriod') ?? null;
  refuseImmutable(retention, 'RetentionOptions.');
  // M3 refuses it; a namespace that is there could never be repaired then.
  const isRepairGiven = options.has('repairEnabled');
  const repairEnabled = options.boolean('repairEnabled', false);
  const update: NamespaceUpdate = {
    repairEnabled: isRepairGiven ? repairEnabled : null,
    retentionPeriodNanos,
    runtimeOptions: runtimeOptionsOf(options),
    aggregations: aggregationsOf(options),
    extendedOptions: extendedOptionsOf(options),
  };
  refuseImmutable(options, '');
  return { name, update };
}

function refuseImmutable(fields: Fields | null, prefix: string): void {
  const key = fields?.firstKey();
  if (key === undefined) return;
  const field = prefix + key.charAt(0).toUpperCase() + key.slice(1);
  throw badRequest(
    `unable to validate update request: ${field}: namespace option field is immutable; to delete the namespace and add it again removes its rows`,
  );
}

function retentionOptionsOf(fields: Fields): RetentionOptions {
  const options: RetentionOptions = {
    retentionPeriodNanos: fields.nanos('retentionPeriod') ?? 0n,
    blockSizeNanos: fields.nanos('blockSize') ?? 0n,
    bufferFutureNanos: fields.nanos('bufferFuture') ?? 0n,
    bufferPastNanos: fields.nanos('bufferPast') ?? 0n,
    blockDataExpiry: fields.boolean('blockDataExpiry', false),
    blockDataExpiryAfterNotAccessPeriodNanos:
      fields.nanos(
        'blockDataExpiryAfterNotAccessPeriod',
        'blockDataExpiryAfterNotAccessedPeriod',
      ) ?? 0n,
    futureRetentionPeriodNanos: fields.nanos('futureRetentionPeriod') ?? 0n,
  };
  fields.end();
  refuseWithoutEffect(
    fields,
    'futureRetentionPeriod',
    options.futureRetentionPeriodNanos,
    'no row is taken that is further ahead than bufferFuture',
  );
  return options;
}

function runtimeOptionsOf(fields: Fields): RuntimeOptions | null {
  const runtime = fields.object('runtimeOptions');
  if (runtime === null) return null;
  const options: RuntimeOptions = {
    writeIndexingPerCPUConcurrency: runtime.float('writeIndexingPerCPUConcurrency'),
    flushIndexingPerCPUConcurrency: runtime.float('flushIndexingPerCPUConcurrency'),
  };
  runtime.end();
  const asked = Object.values(options).some((value) => value !== null) ? options : null;
  refuseWithoutEffect(fields, 'runtimeOptions', asked, 'indexing has no settings of its own');
  return options;
}

function aggregationsOf(fields: Fields): Aggregation[] | null {
  const aggregation = fields.object('aggregationOptions');
  if (aggregation === null) return null;
  const aggregations = aggregation.list('aggregations', (item): Aggregation => {
    const aggregated = item.boolean('aggregated', false);
    const attributes = item.object('attributes');
    item.end();
    if (attributes === null) return { aggregated, attributes: null };
    const resolutionNanos = attributes.nanos('resolution') ?? 0n;
    const downsample = attributes.object('downsampleOptions');
    attributes.end();
    if (downsample === null) {
      return { aggregated, attributes: { resolutionNanos, downsampleOptions: null } };
    }
    const all = downsample.boolean('all', false);
    downsample.end();
    return { aggregated, attributes: { resolutionNanos, downsampleOptions: { all } } };
  });
  aggregation.end();
  return aggregations;
}

function extendedOptionsOf(fields: Fields): ExtendedOptions | null {
  const extended = fields.object('extendedOptions');
  if (extended === null) return null;
  const options: ExtendedOptions = {
    type: extended.string('type', ''),
    options: extended.any('options') ?? null,
  };
  extended.end();
  refuseWithoutEffect(fields, 'extendedOptions', options, 'there is no extension of this type');
  return options;
}
