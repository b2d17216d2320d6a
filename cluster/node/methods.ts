/** A `NodeService` as the gRPC methods of lib/proto/node.proto, for `serveGrpc`. */
import { batchBytesMax } from '#engine/batch/batch.ts';
import type { GrpcMethod } from '#lib/env/grpc.ts';
import { untilAborted } from '#lib/env/wait.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Delivery } from '#lib/read_memory/delivery.ts';
import { Leaving, type MonotonicClock } from '#lib/read_memory/leaving.ts';
import { bundleParts } from './bundle_pages.ts';
import { wirePageBytesMax } from '../limits.ts';
import type { AggregateResponse, FetchResponse, NodeService, StreamShardPage } from './service.ts';
import {
  type AggregatePage,
  aggregatePageWire,
  aggregateRequestWire,
  fetchByIdRequestWire,
  fetchPageWire,
  fetchRequestWire,
  healthRequestWire,
  healthResponseWire,
  compareRowsRequestWire,
  compareRowsResponseWire,
  nodePaths,
  statisticsRequestWire,
  statisticsResponseWire,
  streamDifferentRequestWire,
  streamShardPageWire,
  streamShardRequestWire,
  truncateRequestWire,
  truncateResponseWire,
  writeRequestWire,
  writeResponseWire,
  type Wire,
} from './wire.ts';

/**
 * `requestBytesMax` that a server of these methods needs: the largest batch, and a little around
 * it.
 */
export const nodeRequestBytesMax: number = batchBytesMax + (1 << 20);

/** @param clock tells answers that their clients take from those that they leave */
export function nodeMethods(service: NodeService, clock: MonotonicClock): readonly GrpcMethod[] {
  const answering = answeringBy(clock);
  return [
    unary(
      nodePaths.write,
      writeRequestWire,
      writeResponseWire,
      (request, signal) => service.write(request, signal),
      nodeRequestBytesMax,
    ),
    answering(nodePaths.fetch, fetchRequestWire, async (request, send, signal, delivery) => {
      await sendFetch(await service.fetch(request, signal, delivery), send);
    }),
    answering(
      nodePaths.fetchById,
      fetchByIdRequestWire,
      async (request, send, signal, delivery) => {
        await sendFetch(await service.fetchById(request, signal, delivery), send);
      },
    ),
    answering(
      nodePaths.aggregate,
      aggregateRequestWire,
      async (request, send, signal, delivery) => {
        const response = await service.aggregate(request, signal, delivery);
        for (const page of aggregatePages(response)) await send(aggregatePageWire.encode(page));
      },
    ),
    unary(
      nodePaths.statistics,
      statisticsRequestWire,
      statisticsResponseWire,
      (request, signal) => {
        if (service.statistics !== undefined) return service.statistics(request, signal);
        throw new TsdbError('BAD_REQUEST', 'statistics are not given here: ask the storage nodes');
      },
    ),
    unary(nodePaths.truncate, truncateRequestWire, truncateResponseWire, (namespace, signal) =>
      service.truncate(namespace, signal),
    ),
    streaming(nodePaths.streamShard, streamShardRequestWire, async (request, send, signal) => {
      await sendPages(service.streamShard(request, signal), send);
    }),
    unary(nodePaths.health, healthRequestWire, healthResponseWire, (of, signal) =>
      service.health(signal, of),
    ),
    unary(
      nodePaths.compareRows,
      compareRowsRequestWire,
      compareRowsResponseWire,
      (request, signal) => {
        if (service.compareRows === undefined) throw notComparedHere();
        return service.compareRows(request, signal);
      },
    ),
    streaming(
      nodePaths.streamDifferent,
      streamDifferentRequestWire,
      async (request, send, signal) => {
        if (service.streamDifferent === undefined) throw notComparedHere();
        await sendPages(service.streamDifferent(request, signal), send);
      },
    ),
  ];
}

type Send = (message: Uint8Array) => Promise<void>;

/** Requests that ask for something: some ten thousand IDs, or starts of blocks. They are read in one piece. */
const questionBytesMax: number = 4 << 20;

function unary<Q, A>(
  path: string,
  request: Wire<Q>,
  answer: Wire<A>,
  handle: (request: Q, signal: AbortSignal) => Promise<A>,
  requestBytesMax: number = questionBytesMax,
): GrpcMethod {
  return {
    kind: 'unary',
    path,
    requestBytesMax,
    handle: async (bytes, { signal }) => answer.encode(await handle(request.decode(bytes), signal)),
  };
}

/** One request, a stream of answers. */
function streaming<Q>(
  path: string,
  request: Wire<Q>,
  handle: (request: Q, send: Send, signal: AbortSignal) => Promise<void>,
  requestBytesMax: number = questionBytesMax,
): GrpcMethod {
  return {
    kind: 'stream',
    path,
    requestBytesMax,
    async handle(requests, send, { signal }) {
      for await (const bytes of requests) {
        await handle(request.decode(bytes), send, signal);
        return;
      }
      throw new TsdbError('BAD_REQUEST', `${path}: the request is missing`);
    },
  };
}

/** One request, and one answer in pages, of which it is told how they leave, and when the last one has. */
function answeringBy(clock: MonotonicClock) {
  return <Q>(
    path: string,
    request: Wire<Q>,
    handle: (request: Q, send: Send, signal: AbortSignal, delivery: Delivery) => Promise<void>,
  ): GrpcMethod =>
    streaming(path, request, async (decoded, send, signal) => {
      const sent = Promise.withResolvers<void>();
      const cut = new AbortController();
      const leaving = new Leaving(clock, (error) => cut.abort(error));
      const sendPage: Send = async (message) => {
        cut.signal.throwIfAborted();
        leaving.waits(message.length);
        await untilAborted(send(message), cut.signal);
        leaving.took(message.length);
      };
      try {
        await handle(decoded, sendPage, signal, { sent: sent.promise, leaving });
      } finally {
        sent.resolve();
      }
    });
}

function notComparedHere(): TsdbError {
  return new TsdbError('UNIMPLEMENTED', 'rows are not compared here: ask the storage nodes');
}

async function sendPages(pages: AsyncIterable<StreamShardPage>, send: Send): Promise<void> {
  for await (const { bundle } of pages) {
    const parts = bundleParts(bundle, wirePageBytesMax);
    for (let part = parts.next(); part.done !== true; ) {
      const next = parts.next();
      await send(streamShardPageWire.encode({ part: part.value, more: next.done !== true }));
      part = next;
    }
  }
}

async function sendFetch(response: FetchResponse, send: Send): Promise<void> {
  const { bundle, exhaustive, shards } = response;
  const parts = bundleParts(bundle, wirePageBytesMax);
  for (let part = parts.next(); part.done !== true; ) {
    const next = parts.next();
    const last = next.done === true ? { exhaustive, shards } : null;
    await send(fetchPageWire.encode({ part: part.value, last }));
    part = next;
  }
}

function* aggregatePages(response: AggregateResponse): Generator<AggregatePage> {
  let tags: { name: string; values: string[] }[] = [];
  let left = wirePageBytesMax;
  for (const { name, values } of response.tags) {
    let tag = { name, values: [] as string[] };
    tags.push(tag);
    left -= Buffer.byteLength(name);
    for (const value of values) {
      left -= Buffer.byteLength(value);
      if (left < 0) {
        yield { tags, last: null };
        left = wirePageBytesMax;
        tag = { name, values: [] };
        tags = [tag];
      }
      tag.values.push(value);
    }
  }
  const { exhaustive, shards } = response;
  yield { tags, last: { exhaustive, shards } };
}
