/** What a server of gRPC serves. Messages are bytes. */

/** What a handler knows of its call. */
export interface GrpcCall {
  /** Aborts when the client leaves or its deadline ends; of a stream also when the server stops. */
  readonly signal: AbortSignal;
  readonly peer: string;
  /** How the message of a unary call is compressed; '' when it is not. */
  readonly encoding: string;
  /** First value of a metadata entry. */
  metadata(name: string): string | undefined;
}

export interface GrpcUnary {
  readonly kind: 'unary';
  /** Where it takes less than the server's other methods. */
  readonly requestBytesMax?: number;
  /** In which its message may be compressed; the handler gets it as it came. Others are refused. */
  readonly encodings?: readonly string[];
  /** '/package.Service/Method' */
  readonly path: string;
  readonly handle: (request: Uint8Array, call: GrpcCall) => Promise<Uint8Array>;
}

export interface GrpcStream {
  readonly kind: 'stream';
  /** As of `GrpcUnary`. */
  readonly requestBytesMax?: number;
  readonly path: string;
  /**
   * The call ends when the promise does. A message is the handler's until it asks for the next one.
   * `send` resolves when the message is handed to the connection, so awaiting it is the
   * backpressure; it rejects once the client has left.
   */
  readonly handle: (
    requests: AsyncIterable<Uint8Array>,
    send: (message: Uint8Array) => Promise<void>,
    call: GrpcCall,
  ) => Promise<void>;
}

export type GrpcMethod = GrpcUnary | GrpcStream;
