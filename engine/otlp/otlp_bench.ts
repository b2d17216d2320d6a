/**
 * OTLP bodies alone, from protobuf to rows: 8192 points, of sums with six attributes below resources of hosts, as a
 * collector's batches are; and histograms.
 */
import type { BenchResult, BenchSize } from '#test/benchmark.ts';
import { attributes, openReader } from './otlp_testing.ts';
import { wireFromOtlpJson } from './wire/json.ts';
import type { OtlpReader } from './reader.ts';

const nanos = 1_000_000;

function pointOf(host: number, index: number, scrape: number): object {
  return {
    startTimeUnixNano: String(1_700_000_000_000 * nanos),
    timeUnixNano: String((1_700_000_000_000 + scrape * 15_000) * nanos + host),
    attributes: attributes({
      'http.request.method': ['GET', 'POST', 'PUT'][index % 3]!,
      'http.response.status_code': String(200 + (index % 5)),
      'http.route': `/api/v1/items/${index % 32}`,
      'network.protocol.version': '1.1',
      'server.address': `shop-${index}.example.com`,
      'url.scheme': 'https',
    }),
  };
}

const pointsOfHost = 256;

function bodyOf(kind: 'sum' | 'histogram', pointCount: number, scrape: number): Uint8Array {
  const resourceMetrics = Array.from({ length: pointCount / pointsOfHost }, (_, host) => {
    const dataPoints = Array.from({ length: pointsOfHost }, (_point, index) => {
      const point = pointOf(host, index, scrape);
      if (kind === 'sum') return { ...point, asDouble: (index * 7 + scrape) % 100 };
      return {
        ...point,
        count: '40',
        sum: 12.5,
        explicitBounds: Array.from({ length: 14 }, (_bound, i) => 0.005 * 2 ** i),
        bucketCounts: Array.from({ length: 15 }, (_count, i) => String(i % 4)),
      };
    });
    const data = { aggregationTemporality: 2, isMonotonic: true, dataPoints };
    const metrics = Array.from({ length: 8 }, (_metric, i) => ({
      name: `http.server.${kind}.${i}`,
      unit: 's',
      [kind]: { ...data, dataPoints: dataPoints.slice(i * 32, i * 32 + 32) },
    }));
    const resource = {
      attributes: attributes({
        'service.name': 'shop',
        'service.instance.id': `host-${host}`,
        'host.name': `host-${host}`,
        'cloud.region': 'eu-central-1',
      }),
    };
    return { resource, scopeMetrics: [{ scope: { name: 'otelhttp', version: '1' }, metrics }] };
  });
  return wireFromOtlpJson({ resourceMetrics });
}

async function rowsOf(reader: OtlpReader, body: Uint8Array): Promise<number> {
  const parts = reader.open(body);
  let rows = 0;
  for (let part = parts.next(); part !== null; part = parts.next()) {
    if (part === 'unchecked') await parts.check(() => Promise.resolve());
    else rows += part.rows.rowCount;
  }
  return rows;
}

async function cpuNanosOfRow(
  reader: OtlpReader,
  bodies: readonly Uint8Array[],
  rounds: number,
): Promise<number> {
  let rows = 0;
  const before = process.cpuUsage();
  for (let round = 0; round < rounds; round++) {
    for (const body of bodies) rows += await rowsOf(reader, body);
  }
  const { user, system } = process.cpuUsage(before);
  return ((user + system) * 1000) / rows;
}

export async function bench(size: BenchSize): Promise<BenchResult[]> {
  const rounds = size === 'full' ? 20 : 1;
  const results: BenchResult[] = [];
  for (const kind of ['sum', 'histogram'] as const) {
    const pointCount = kind === 'sum' ? 8192 : 512;
    const bodies = [0, 1, 2].map((scrape) => bodyOf(kind, pointCount, scrape));
    const news: number[] = [];
    const knowns: number[] = [];
    for (let run = 0; run < (size === 'full' ? 5 : 1); run++) {
      const { reader } = openReader();
      news.push(await cpuNanosOfRow(reader, bodies.slice(0, 1), 1));
      knowns.push(await cpuNanosOfRow(reader, bodies, rounds));
    }
    for (const [what, values] of [
      ['known', knowns],
      ['new', news],
    ] as const) {
      const median = values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;
      results.push({
        name: `engine/otlp: ${kind}s, ${what} series`,
        unit: 'CPU ns/sample',
        value: median,
      });
    }
  }
  return results;
}
