/**
 * Samples as TSBS cpu-only has them: hosts with ten tags and ten whole numbers that walk between 0 and 100, every 15 seconds.
 * The same seed makes the same samples for every format. Bodies are in files before anything is measured.
 */
import { closeSync, openSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';

export const intervalMillis = 15_000;
export const valueMax = 100;
/** Each has hosts of its own, as agents and relays do it, so that samples of a series come one after the other. */
const connectionsMax = 4;
/** A value goes so far up or down at once, at most. */
const stepMax = 2;

export const fields = [
  'usage_user',
  'usage_system',
  'usage_idle',
  'usage_nice',
  'usage_iowait',
  'usage_irq',
  'usage_softirq',
  'usage_steal',
  'usage_guest',
  'usage_guest_nice',
] as const;

export interface Shape {
  readonly hostCount: number;
  readonly scrapes: number;
  /** Of the last scrape. */
  readonly endMillis: number;
  readonly seed: number;
  /** Scrapes of hosts in a body. */
  readonly scrapesOfBody: number;
}

export interface Host {
  /** The host's name is the first one. */
  readonly tags: readonly (readonly [name: string, value: string])[];
}

export interface HostScrape {
  readonly host: Host;
  readonly timeMillis: number;
  /** By field. */
  readonly values: Uint8Array;
}

/** Bodies that go over one connection, one after the other. */
export interface BodyFile {
  readonly path: string;
  readonly bodyBytes: readonly number[];
}

export interface Bodies {
  readonly files: readonly BodyFile[];
  readonly samples: number;
  /** Of all values, by field. */
  readonly sums: readonly number[];
}

export function samplesOf({ hostCount, scrapes }: Shape): number {
  return hostCount * scrapes * fields.length;
}

/** @param bodyOf makes a body of scrapes of some hosts */
export function writeBodies(
  folder: string,
  shape: Shape,
  bodyOf: (scrapes: readonly HostScrape[]) => Uint8Array,
): Bodies {
  const sums = fields.map(() => 0);
  const connections = Math.min(connectionsMax, shape.hostCount);
  const files = Array.from({ length: connections }, (_, connection): BodyFile => {
    const [first, end] = [connection, connection + 1].map((at) =>
      Math.floor((shape.hostCount * at) / connections),
    ) as [number, number];
    const path = join(folder, `bodies-${connection}`);
    const bodyBytes: number[] = [];
    const file = openSync(path, 'w');
    let waiting: HostScrape[] = [];
    const write = (): void => {
      const body = bodyOf(waiting);
      for (let at = 0; at < body.length; ) at += writeSync(file, body, at);
      bodyBytes.push(body.length);
      waiting = [];
    };
    for (const scrape of scrapesOf(shape, first, end)) {
      for (const [field, value] of scrape.values.entries()) sums[field]! += value;
      if (waiting.push(scrape) === shape.scrapesOfBody) write();
    }
    if (waiting.length > 0) write();
    closeSync(file);
    return { path, bodyBytes };
  });
  return { files, samples: samplesOf(shape), sums };
}

/** All scrapes of some hosts by time. */
export function* scrapesOf(
  shape: Shape,
  firstHost: number,
  endHost: number,
): Generator<HostScrape> {
  const hosts = Array.from({ length: endHost - firstHost }, (_, at) =>
    hostOf(firstHost + at, shape.seed),
  );
  const numbers = new SeededNumbers(shape.seed + firstHost);
  const now = hosts.map(() => Uint8Array.from(fields, () => numbers.below(valueMax + 1)));
  for (let scrape = 0; scrape < shape.scrapes; scrape += 1) {
    const timeMillis = shape.endMillis - (shape.scrapes - 1 - scrape) * intervalMillis;
    for (const [at, host] of hosts.entries()) {
      const values = now[at]!;
      for (let field = 0; field < values.length; field += 1) {
        const value = values[field]! + numbers.below(2 * stepMax + 1) - stepMax;
        values[field] = Math.min(valueMax, Math.max(0, value));
      }
      yield { host, timeMillis, values: values.slice() };
    }
  }
}

const regions = ['us-east-1', 'us-west-1', 'us-west-2', 'eu-west-1', 'eu-central-1', 'sa-east-1'];
const systems = ['Ubuntu16.10', 'Ubuntu16.04LTS', 'Ubuntu15.10'];
const architectures = ['x64', 'x86'];
const teams = ['SF', 'NYC', 'LON', 'CHI'];
const environments = ['production', 'staging', 'test'];

function hostOf(number: number, seed: number): Host {
  const numbers = new SeededNumbers(seed + (number + 1) * 1_000_003);
  const oneOf = (all: readonly string[]): string => all[numbers.below(all.length)]!;
  const region = oneOf(regions);
  const tags = {
    hostname: `host_${number}`,
    region,
    datacenter: `${region}${oneOf(['a', 'b', 'c'])}`,
    rack: String(numbers.below(100)),
    os: oneOf(systems),
    arch: oneOf(architectures),
    team: oneOf(teams),
    service: String(numbers.below(20)),
    service_version: String(numbers.below(2)),
    service_environment: oneOf(environments),
  };
  return { tags: Object.entries(tags) };
}
