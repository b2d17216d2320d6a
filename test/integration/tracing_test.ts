/** Spans of a request over two real processes, as a collector gets them. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { Fields } from '#engine/write_decoder/wire_fields.ts';
import { type GrpcServer, serveGrpc } from '#lib/env/grpc.ts';
import { freePorts } from '../ports.ts';
import { call, createLocalDatabase, eventually, NodeServer, Program } from './process.ts';

interface SeenSpan {
  readonly service: string;
  readonly name: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly isError: boolean;
}

/** Fields of a message that are bytes or messages, by their numbers. */
function partsOf(bytes: Uint8Array): { readonly number: number; readonly bytes: Uint8Array }[] {
  const parts: { number: number; bytes: Uint8Array }[] = [];
  const fields = new Fields(bytes, 0, bytes.length);
  while (fields.next()) {
    const { number, wireType } = fields;
    if (wireType === 2) parts.push({ number, bytes: bytes.subarray(...fields.range()) });
    else if (wireType === 0) parts.push({ number, bytes: Uint8Array.of(Number(fields.varint())) });
    else fields.skip();
  }
  return parts;
}

const all = (bytes: Uint8Array, number: number): Uint8Array[] =>
  partsOf(bytes)
    .filter((part) => part.number === number)
    .map((part) => part.bytes);
const text = (bytes: Uint8Array | undefined): string => Buffer.from(bytes ?? []).toString();

function attributesOf(pairs: readonly Uint8Array[]): Record<string, string> {
  return Object.fromEntries(
    pairs.map((pair) => {
      const [value] = all(pair, 2);
      return [text(all(pair, 1)[0]), text(all(value!, 1)[0])];
    }),
  );
}

/** Of an ExportTraceServiceRequest. */
function spansOf(request: Uint8Array): SeenSpan[] {
  return all(request, 1).flatMap((resourceSpans) => {
    const [resource] = all(resourceSpans, 1);
    const service = attributesOf(all(resource!, 1))['service.name']!;
    const spans = all(resourceSpans, 2).flatMap((scope) => all(scope, 2));
    return spans.map((span) => {
      const hex = (number: number) => Buffer.from(all(span, number)[0] ?? []).toString('hex');
      const [status] = all(span, 15);
      return {
        service,
        name: text(all(span, 5)[0]),
        traceId: hex(1),
        spanId: hex(2),
        parentId: hex(4),
        attributes: attributesOf(all(span, 9)),
        isError: status !== undefined && all(status, 3)[0]?.[0] === 2,
      };
    });
  });
}

const folder = mkdtempSync(join(tmpdir(), 'tsdb-tracing-'));
const seen: SeenSpan[] = [];
const collector: GrpcServer = await serveGrpc({
  host: '127.0.0.1',
  port: 0,
  methods: [
    {
      kind: 'unary',
      path: '/opentelemetry.proto.collector.trace.v1.TraceService/Export',
      handle: async (request) => {
        seen.push(...spansOf(request));
        return new Uint8Array(0);
      },
    },
  ],
  requestBytesMax: 1 << 22,
  stopGraceMillis: 100,
});
const tracing = `tracing: {backend: opentelemetry, opentelemetry: {endpoint: "127.0.0.1:${collector.port}", insecure: true}}`;
const server = await NodeServer.create({ folder: join(folder, 'node'), settings: [tracing] });
let coordinator: Program | null = null;
after(async () => {
  await coordinator?.stop('SIGKILL');
  await server.program.stop('SIGKILL');
  await collector[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

test('a request is one trace over coordinator and node, which goes on with that of its client', async () => {
  await server.start();
  await createLocalDatabase(server, 'default');
  const [port, metrics] = (await freePorts(2)) as [number, number];
  const file = join(folder, 'coordinator.yml');
  writeFileSync(
    file,
    [
      'coordinator:',
      `  listenAddress: 127.0.0.1:${port}`,
      `  metrics: {prometheus: {listenAddress: "127.0.0.1:${metrics}"}}`,
      `  discovery: {type: tsdb_cluster, tsdbCluster: {endpoints: ["127.0.0.1:${server.ports.kv}"]}}`,
      `  ${tracing}`,
      '',
    ].join('\n'),
  );
  coordinator = new Program('coordinator', folder, process.execPath, [
    'coordinator/main.ts',
    '-f',
    file,
  ]);
  coordinator.start();
  const url = `http://127.0.0.1:${port}`;
  await eventually('the coordinator answers', async () => (await fetch(`${url}/ready`)).ok);
  const row = {
    tags: { __name__: 'traced' },
    timestamp: String(Math.floor(Date.now() / 1000)),
    value: 1,
  };
  assert.equal((await call('POST', `${url}/api/v1/json/write`, row)).status, 200);
  const traceId = '0af7651916cd43dd8448eb211c80319c';
  const parentId = 'b7ad6b7169203331';
  const headers = { traceparent: `00-${traceId}-${parentId}-01` };
  const answer = await fetch(`${url}/api/v1/query?query=traced`, { headers });
  assert.equal(answer.status, 200);
  const query = await eventually('the spans of the query are sent', async () => {
    const spans = seen.filter((span) => span.traceId === traceId);
    return spans.some(({ service }) => service === 'tsdb-node') &&
      spans.some(({ name }) => name === 'GET /api/v1/query')
      ? spans
      : null;
  });
  const root = query.find(({ name }) => name === 'GET /api/v1/query')!;
  assert.equal(root.parentId, parentId);
  assert.equal(root.service, 'tsdb-coordinator');
  assert.equal(root.isError, false);
  assert.equal(root.attributes['http.route'], '/api/v1/query');
  const ofNode = query.find(({ service }) => service === 'tsdb-node')!;
  assert.match(ofNode.name, /^tsdb\.node\.v1\.Node\/Fetch/);
  const session = query.find(({ spanId }) => spanId === ofNode.parentId)!;
  assert.equal(session.name, 'session.fetch');
  assert.equal(session.attributes['tsdb.namespace'], 'default');
  assert.equal(session.parentId, root.spanId);
  // Without a trace of its client a request begins one.
  const write = await eventually('the spans of the write are sent', async () =>
    seen.find(({ name }) => name === 'POST /api/v1/json/write'),
  );
  assert.notEqual(write.traceId, traceId);
  assert.equal(write.parentId, '');
});

test('a collector that is away costs nothing but its spans', async () => {
  await collector[Symbol.asyncDispose]();
  const { status } = await call('GET', `${server.url}/api/v1/query?query=traced`);
  assert.equal(status, 200);
  assert.equal(await coordinator!.stop('SIGTERM'), 0);
  assert.equal(await server.program.stop('SIGTERM'), 0);
});
