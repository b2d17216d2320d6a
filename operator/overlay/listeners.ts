/**
 * What coordinators listen for beside HTTP: Carbon, statsd, OpenTSDB's puts and OTLP over gRPC, each when the resource's settings have its section.
 * Series of statsd are shared, since the Service gives each packet to any of them.
 */
import { coordinatorConfig } from './config.ts';
import { port } from '../resource/names.ts';
import type { TsdbCluster } from '../resource/tsdb_cluster.ts';

export interface ListenerPort {
  readonly name: string;
  readonly number: number;
  readonly protocol: 'TCP' | 'UDP';
}

export interface CoordinatorListeners {
  /** Of the configuration, below `coordinator`. */
  readonly lines: readonly string[];
  /** Of the Service. */
  readonly ports: readonly ListenerPort[];
  /** Between coordinators. */
  readonly ownPorts: readonly ListenerPort[];
}

/** Of the pod, in the environment of its process. */
export const podAddressVariable = {
  name: 'POD_IP',
  valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } },
} as const;

export function coordinatorListeners(cluster: TsdbCluster): CoordinatorListeners {
  const { carbon, statsd, opentsdb } = coordinatorConfig(cluster);
  const lines: string[] = [];
  const ports: ListenerPort[] = [];
  const ownPorts: ListenerPort[] = [];
  const tcp = (name: string, number: number): ListenerPort => ({ name, number, protocol: 'TCP' });
  const udp = (name: string, number: number): ListenerPort => ({ name, number, protocol: 'UDP' });
  const anywhere = (number: number): string => `"0.0.0.0:${number}"`;
  if (carbon !== null) {
    const pickle = `pickleListenAddress: ${anywhere(port.carbonPickle)}`;
    lines.push(`carbon: {ingester: {listenAddress: ${anywhere(port.carbon)}, ${pickle}}}`);
    ports.push(tcp('carbon', port.carbon), tcp('carbon-pickle', port.carbonPickle));
    if (carbon.udpEnabled) ports.push(udp('carbon-udp', port.carbon));
  }
  if (statsd !== null) {
    const advertised = `"\${POD_IP}:${port.statsdSharing}"`;
    const sharing = `{listenAddress: ${anywhere(port.statsdSharing)}, advertiseAddress: ${advertised}}`;
    lines.push(
      `statsd: {ingester: {listenAddress: ${anywhere(port.statsd)}, sharing: ${sharing}}}`,
    );
    if (statsd.udpEnabled) ports.push(udp('statsd', port.statsd));
    if (statsd.tcpEnabled) ports.push(tcp('statsd-tcp', port.statsd));
    ownPorts.push(tcp('statsd-sharing', port.statsdSharing));
  }
  if (opentsdb !== null) {
    lines.push(`opentsdb: {ingester: {listenAddress: ${anywhere(port.opentsdb)}}}`);
    ports.push(tcp('opentsdb', port.opentsdb));
  }
  if (cluster.spec.coordinator?.config?.['otlp'] !== undefined) {
    lines.push(`otlp: {grpcListenAddress: ${anywhere(port.otlp)}}`);
    ports.push(tcp('otlp-grpc', port.otlp));
  }
  return { lines, ports, ownPorts };
}
