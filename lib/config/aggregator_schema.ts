/** Section `aggregator:` of the configuration, as a schema with its defaults. */
import * as z from 'zod';
import type { AggregatorSection } from './sections.ts';
import { client, discovery, hostId, logging, metrics } from './shared_schema.ts';
import { addressByDiscovery, hostNames, oneOf } from './values.ts';

/** Section `aggregator:`, or the whole file of an aggregator. */
export const aggregatorSchema: z.ZodType<AggregatorSection> = z.strictObject({
  listenAddress: addressByDiscovery(6000),
  httpListenAddress: addressByDiscovery(6001),
  allowedHosts: hostNames,
  metrics,
  logging,
  hostID: hostId.optional(),
  tagOptions: z
    .strictObject({ idScheme: oneOf(['quoted', 'prepend_meta', 'legacy']).default('quoted') })
    .prefault({}),
  client,
  discovery: discovery.optional(),
});
