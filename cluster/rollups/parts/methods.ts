/** A `PartsService` as the gRPC method of lib/proto/aggregator.proto, for `serveGrpc`. */
import type { GrpcMethod } from '#lib/env/grpc.ts';
import { TsdbError } from '#lib/errors.ts';
import type { PartsService } from './service.ts';
import { decodePartsRequest, partsPages, partsPath } from './wire.ts';

/** Of as many shards as there can be, none beside another one. */
const requestBytesMax = 1024 * 1024;

export function partsMethod(service: PartsService): GrpcMethod {
  return {
    kind: 'stream',
    path: partsPath,
    requestBytesMax,
    async handle(requests, send, { signal }) {
      for await (const bytes of requests) {
        const outputs = await service.parts(decodePartsRequest(bytes), signal);
        for (const page of partsPages(outputs)) await send(page);
        return;
      }
      throw new TsdbError('BAD_REQUEST', `${partsPath}: the request is missing`);
    },
  };
}
