/** Spans of calls by gRPC: a server's, whose parent is the span in which the client called. */
import type { GrpcCall, GrpcMethod } from '../env/grpc/method.ts';
import type { GrpcCallOptions, GrpcClient } from '../env/grpc.ts';
import { type Tracing, traceparentHeader } from './tracing.ts';

/** The methods, each call in a span. */
export function tracedMethods(
  methods: readonly GrpcMethod[],
  tracing: Tracing | null,
): readonly GrpcMethod[] {
  if (tracing === null) return methods;
  return methods.map((method): GrpcMethod => {
    // Every peer asks for it every few seconds.
    if (method.path.endsWith('/Health')) return method;
    const name = method.path.slice(1);
    const attributes = { 'rpc.system': 'grpc' };
    if (method.kind === 'unary') {
      return {
        ...method,
        handle: (request: Uint8Array, call: GrpcCall) => {
          const parent = call.metadata(traceparentHeader);
          const options = { kind: 'server', parent, attributes } as const;
          return tracing.run(name, options, () => method.handle(request, call));
        },
      };
    }
    return {
      ...method,
      handle: (requests, send, call) => {
        const parent = call.metadata(traceparentHeader);
        const options = { kind: 'server', parent, attributes } as const;
        return tracing.run(name, options, () => method.handle(requests, send, call));
      },
    };
  });
}

/** The client, which tells servers in which span it calls them. */
export function tracedClient(client: GrpcClient, tracing: Tracing | null): GrpcClient {
  if (tracing === null) return client;
  const told = (options: GrpcCallOptions | undefined): GrpcCallOptions | undefined => {
    const traceparent = tracing.traceparent();
    if (traceparent === undefined) return options;
    return { ...options, metadata: { ...options?.metadata, [traceparentHeader]: traceparent } };
  };
  return {
    unary: (path, request, signal, options) => client.unary(path, request, signal, told(options)),
    stream: (path, signal, options) => client.stream(path, signal, told(options)),
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}
