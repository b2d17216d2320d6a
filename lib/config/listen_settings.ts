/** Which settings name a port: for whoever cannot have it. */
import { ListenError } from '../env/listen_error.ts';
import { TsdbError } from '../errors.ts';
import type { Config } from './resolve/types.ts';

/**
 * What a start failed with: of an address that cannot be had with the settings that name it.
 * @param config as it was loaded, defaults included
 */
export function withListenSetting(error: unknown, config: Config): unknown {
  if (!(error instanceof ListenError)) return error;
  const settings = settingsOf(config, error.port);
  if (settings === '') return error;
  return new TsdbError(error.code, `${error.message} (set by ${settings})`, { cause: error });
}

function settingsOf(config: Config, port: number): string {
  const { db, coordinator, aggregator } = config;
  const addresses = [
    ['listenAddress of coordinator:', coordinator?.listenAddress],
    ['metrics.prometheus.listenAddress of coordinator:', coordinator?.metricsListenAddress],
    ['listenAddress of aggregator:', aggregator?.listenAddress],
    ['httpListenAddress of aggregator:', aggregator?.httpListenAddress],
    ['metrics.prometheus.listenAddress of aggregator:', aggregator?.metricsListenAddress],
    ['db.listenAddress', db?.listenAddress],
    ['db.clusterListenAddress', db?.clusterListenAddress],
    ['db.httpNodeListenAddress', db?.httpNodeListenAddress],
    ['db.httpClusterListenAddress', db?.httpClusterListenAddress],
    ['db.debugListenAddress', db?.debugListenAddress],
    ['db.metrics.prometheus.listenAddress', db?.metricsListenAddress],
    ['db.kv.listenAddress', db?.kvListenAddress],
  ] as const;
  return addresses
    .filter(([, address]) => address?.port === port)
    .map(([setting]) => setting)
    .join(' and ');
}
