/** The statuses of gRPC, and how they and our errors become each other. */
import { BrokenInvariant } from '../../assert.ts';
import { type ErrorCode, messageOf, TsdbError } from '../../errors.ts';

export const grpcStatus = {
  ok: 0,
  cancelled: 1,
  unknown: 2,
  invalidArgument: 3,
  deadlineExceeded: 4,
  notFound: 5,
  alreadyExists: 6,
  permissionDenied: 7,
  resourceExhausted: 8,
  failedPrecondition: 9,
  aborted: 10,
  outOfRange: 11,
  unimplemented: 12,
  internal: 13,
  unavailable: 14,
  dataLoss: 15,
  unauthenticated: 16,
} as const;

/** How a call ended. */
export interface GrpcOutcome {
  readonly status: number;
  readonly message: string;
  /** A google.rpc.Status with details. */
  readonly details?: Uint8Array;
}

/**
 * An answer with a status of our choice; what a handler throws when TsdbError is not exact enough.
 */
export class GrpcStatusError extends Error {
  override readonly name = 'GrpcStatusError';
  readonly status: number;
  /** As of `GrpcOutcome`. */
  readonly details: Uint8Array | undefined;

  constructor(status: number, message: string, options?: ErrorOptions, details?: Uint8Array) {
    super(message, options);
    this.status = status;
    this.details = details;
  }
}

const statusOfCode: Record<ErrorCode, number> = {
  BAD_REQUEST: grpcStatus.invalidArgument,
  NOT_FOUND: grpcStatus.notFound,
  CONFLICT: grpcStatus.aborted,
  RESOURCE_EXHAUSTED: grpcStatus.resourceExhausted,
  CANCELLED: grpcStatus.cancelled,
  INTERNAL: grpcStatus.internal,
  UNIMPLEMENTED: grpcStatus.unimplemented,
  FAILED_PRECONDITION: grpcStatus.failedPrecondition,
  UNAVAILABLE: grpcStatus.unavailable,
  DEADLINE_EXCEEDED: grpcStatus.deadlineExceeded,
};

const codeOfStatus = new Map<number, ErrorCode>([
  [grpcStatus.cancelled, 'CANCELLED'],
  [grpcStatus.invalidArgument, 'BAD_REQUEST'],
  [grpcStatus.deadlineExceeded, 'DEADLINE_EXCEEDED'],
  [grpcStatus.notFound, 'NOT_FOUND'],
  [grpcStatus.alreadyExists, 'CONFLICT'],
  [grpcStatus.resourceExhausted, 'RESOURCE_EXHAUSTED'],
  [grpcStatus.failedPrecondition, 'FAILED_PRECONDITION'],
  [grpcStatus.aborted, 'CONFLICT'],
  [grpcStatus.outOfRange, 'BAD_REQUEST'],
  [grpcStatus.unimplemented, 'UNIMPLEMENTED'],
  [grpcStatus.unavailable, 'UNAVAILABLE'],
]);

/** What a client tells its caller. */
export function errorCodeOf(status: unknown): ErrorCode {
  return codeOfStatus.get(typeof status === 'number' ? status : -1) ?? 'INTERNAL';
}

/**
 * What a handler's error is to the client. A broken invariant must stop the process, so it is also
 * thrown where nobody catches it.
 */
export function outcomeOf(error: unknown): GrpcOutcome {
  if (error instanceof BrokenInvariant) {
    process.nextTick(() => {
      throw error;
    });
  }
  if (error instanceof GrpcStatusError) {
    const { status, message, details } = error;
    return details === undefined ? { status, message } : { status, message, details };
  }
  if (error instanceof TsdbError) {
    return { status: statusOfCode[error.code], message: error.message };
  }
  return { status: grpcStatus.internal, message: messageOf(error) };
}

/** Larger ones do not fit into what clients take of headers. */
const messageCharactersMax = 4096;

/** As it is written into `grpc-message`: percent-encoded but for printable ASCII. */
export function encodeMessage(message: string): string {
  const short = message.slice(0, messageCharactersMax);
  if (/^[ -$&-~]*$/.test(short)) return short;
  let encoded = '';
  for (const byte of Buffer.from(short)) {
    const isPlain = byte >= 0x20 && byte <= 0x7e && byte !== 0x25;
    encoded += isPlain
      ? String.fromCharCode(byte)
      : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return encoded;
}

const millisOfUnit: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** What `grpc-timeout` says, or null when it is not of its form. */
export function millisOfTimeout(text: string): number | null {
  const [, amount, unit] = /^(\d{1,8})([HMSmun])$/.exec(text) ?? [];
  return amount === undefined ? null : Number(amount) * millisOfUnit[unit!]!;
}
