/** Section `aggregator:` of the configuration, as a schema with its defaults. */
import * as z from 'zod';
import type { AggregatorSection } from './sections.ts';
import {
  aggregatorClient,
  discovery,
  hostId,
  logging,
  metrics,
  namesFitIds,
  seriesNames,
  service,
  tracing,
} from './shared_schema.ts';
import { address, addressByDiscovery, hostNames, notSupported, tuning, tunings } from './values.ts';

const prefix = notSupported('prefixes of names', (value) => value === '');

/** Section `aggregator:`, or the whole file of an aggregator; also what M3's file has beside the section. */
export const aggregatorSchema: z.ZodType<AggregatorSection> = z.strictObject({
  listenAddress: addressByDiscovery(6000),
  httpListenAddress: addressByDiscovery(6001),
  allowedHosts: hostNames,
  metrics,
  logging,
  tracing,
  hostID: hostId.optional(),
  tagOptions: z.strictObject(seriesNames).superRefine(namesFitIds).prefault({}),
  client: aggregatorClient,
  discovery: discovery.optional(),
  // As M3's files have it.
  http: z
    .strictObject({ listenAddress: address.optional(), ...tunings('readTimeout', 'writeTimeout') })
    .optional(),
  rawtcp: z
    .strictObject({
      listenAddress: address.optional(),
      ...tunings(
        'keepAliveEnabled',
        'keepAlivePeriod',
        'retry',
        'readBufferSize',
        'protobufIterator',
        'msgpackIterator',
        'tls',
      ),
    })
    .optional(),
  m3msg: z
    .strictObject({
      server: z
        .strictObject({
          listenAddress: address.optional(),
          ...tunings('retry', 'keepAliveEnabled', 'keepAlivePeriod', 'tls'),
        })
        .optional(),
      ...tunings('consumer'),
    })
    .optional(),
  kvClient: z.strictObject({ etcd: service }).optional(),
  runtimeOptions: tuning,
  metricPrefix: prefix,
  counterPrefix: prefix,
  timerPrefix: prefix,
  gaugePrefix: prefix,
  passthrough: notSupported('rows that are passed through', (value) => value === undefined),
  ...tunings(
    'instanceID',
    'aggregationTypes',
    'stream',
    'placementManager',
    'hashType',
    'bufferDurationBeforeShardCutover',
    'bufferDurationAfterShardCutoff',
    'bufferDurationForFutureTimedMetric',
    'bufferDurationForPastTimedMetric',
    'bufferForPastTimedMetric',
    'resignTimeout',
    'flushTimesManager',
    'electionManager',
    'flushManager',
    'flush',
    'forwarding',
    'entryTTL',
    'entryCheckInterval',
    'entryCheckBatchPercent',
    'maxTimerBatchSizePerWrite',
    'defaultStoragePolicies',
    'maxNumCachedSourceSets',
    'discardNaNAggregatedValues',
    'entryPool',
    'counterElemPool',
    'timerElemPool',
    'gaugeElemPool',
    'verboseErrors',
    'addToReset',
    'timedMetricsFlushOffsetEnabled',
    'writesIgnoreCutoffCutover',
    'trafficControl',
  ),
});
