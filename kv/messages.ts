/** etcd's messages to requests, and answers to etcd's messages. */
import { GrpcStatusError, grpcStatus } from '#lib/env/grpc.ts';
import { loadProto, type ProtoCodec, type ProtoMessage, type ProtoSchema } from '#lib/env/proto.ts';
import type { Work } from '#lib/turns/turns.ts';
import type {
  Change,
  Compare,
  CompareResult,
  DeleteRangeRequest,
  KvErrorKind,
  LiveChange,
  OperationAnswer,
  OperationRequest,
  PutRequest,
  RangeRequest,
  SortOrder,
  SortTarget,
  TxnRequest,
} from './core/requests.ts';
import { kvLimits } from './core/limits.ts';
import { KvError } from './core/requests.ts';

export const schema: ProtoSchema = loadProto(new URL('etcd.proto', import.meta.url));

/** Status and text as etcd answers them; clients recognise errors by these texts. */
const statusOfKind: Record<KvErrorKind, readonly [status: number, message: string]> = {
  compacted: [grpcStatus.outOfRange, 'etcdserver: mvcc: required revision has been compacted'],
  futureRevision: [
    grpcStatus.outOfRange,
    'etcdserver: mvcc: required revision is a future revision',
  ],
  emptyKey: [grpcStatus.invalidArgument, 'etcdserver: key is not provided'],
  keyNotFound: [grpcStatus.invalidArgument, 'etcdserver: key not found'],
  valueProvided: [grpcStatus.invalidArgument, 'etcdserver: value is provided'],
  leaseProvided: [grpcStatus.invalidArgument, 'etcdserver: lease is provided'],
  tooManyOperations: [grpcStatus.invalidArgument, 'etcdserver: too many operations in txn request'],
  tooManyKeys: [
    grpcStatus.invalidArgument,
    `etcdserver: too many keys in the ranges of a request: more than ${kvLimits.transactionKeysMax} in a transaction, or ${kvLimits.deletedKeysMax} to be deleted`,
  ],
  answerTooLarge: [
    grpcStatus.invalidArgument,
    `etcdserver: the answer of the transaction may take more than ${kvLimits.transactionAnswerBytesMax} bytes`,
  ],
  duplicateKey: [grpcStatus.invalidArgument, 'etcdserver: duplicate key given in txn request'],
  invalidSort: [grpcStatus.invalidArgument, 'etcdserver: invalid sort option'],
  noSpace: [grpcStatus.resourceExhausted, 'etcdserver: mvcc: database space exceeded'],
  leaseNotFound: [grpcStatus.notFound, 'etcdserver: requested lease not found'],
  leaseExists: [grpcStatus.failedPrecondition, 'etcdserver: lease already exists'],
  leaseTtlTooLarge: [grpcStatus.outOfRange, 'etcdserver: too large lease TTL'],
  requestTooLarge: [grpcStatus.invalidArgument, 'etcdserver: request is too large'],
  tooManyRequests: [grpcStatus.resourceExhausted, 'etcdserver: too many requests'],
  storageFailed: [grpcStatus.unavailable, 'etcdserver: storage failed, the outcome is unknown'],
  stopped: [grpcStatus.unavailable, 'etcdserver: server stopped'],
};

export function grpcErrorOf(error: KvError): GrpcStatusError {
  const [status, message] = statusOfKind[error.kind];
  return new GrpcStatusError(status, message, { cause: error });
}

/** The text that etcd gives for an error, for answers that carry it as a field. */
export function messageOfKind(kind: KvErrorKind): string {
  return statusOfKind[kind][1];
}

export function textOf(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1');
}

export function bytesOfText(key: string): Uint8Array {
  return Buffer.from(key, 'latin1');
}

const sortOrders: readonly SortOrder[] = ['none', 'ascend', 'descend'];
const sortTargets: readonly SortTarget[] = ['key', 'version', 'create', 'mod', 'value'];

export function rangeRequestOf(message: ProtoMessage): RangeRequest {
  const sortOrder = sortOrders[message['sortOrder'] as number];
  const sortTarget = sortTargets[message['sortTarget'] as number];
  if (sortOrder === undefined || sortTarget === undefined) throw new KvError('invalidSort');
  return {
    kind: 'range',
    key: textOf(message['key']),
    rangeEnd: textOf(message['rangeEnd']),
    limit: Number(message['limit']),
    revision: Number(message['revision']),
    sortOrder,
    sortTarget,
    keysOnly: message['keysOnly'],
    countOnly: message['countOnly'],
    minModRevision: Number(message['minModRevision']),
    maxModRevision: Number(message['maxModRevision']),
    minCreateRevision: Number(message['minCreateRevision']),
    maxCreateRevision: Number(message['maxCreateRevision']),
  };
}

export function putRequestOf(message: ProtoMessage): PutRequest {
  return {
    kind: 'put',
    key: textOf(message['key']),
    // A copy, since the decoded bytes are a view of the whole request.
    value: new Uint8Array(message['value'] as Uint8Array),
    leaseId: message['lease'],
    previous: message['previous'],
    ignoreValue: message['ignoreValue'],
    ignoreLease: message['ignoreLease'],
  };
}

export function deleteRequestOf(message: ProtoMessage): DeleteRangeRequest {
  return {
    kind: 'deleteRange',
    key: textOf(message['key']),
    rangeEnd: textOf(message['rangeEnd']),
    previous: message['previous'],
  };
}

export function txnRequestOf(message: ProtoMessage): TxnRequest {
  return {
    kind: 'txn',
    compares: (message['compare'] as ProtoMessage[]).map(compareOf),
    success: (message['success'] as ProtoMessage[]).map(operationOf),
    failure: (message['failure'] as ProtoMessage[]).map(operationOf),
  };
}

function operationOf(message: ProtoMessage): OperationRequest {
  switch (message['request'] as string | undefined) {
    case 'range':
      return rangeRequestOf(message['range']);
    case 'put':
      return putRequestOf(message['put']);
    case 'deleteRange':
      return deleteRequestOf(message['deleteRange']);
    case 'txn':
      return txnRequestOf(message['txn']);
    case undefined:
    default:
      throw new KvError('keyNotFound');
  }
}

const compareResults: readonly CompareResult[] = ['equal', 'greater', 'less', 'notEqual'];
const compareTargets = ['version', 'create', 'mod', 'value', 'lease'] as const;
const fieldOfTarget = {
  version: 'version',
  create: 'createRevision',
  mod: 'modRevision',
  lease: 'lease',
} as const;

function compareOf(message: ProtoMessage): Compare {
  const result = compareResults[message['result'] as number];
  const kind = compareTargets[message['target'] as number];
  if (result === undefined || kind === undefined) {
    throw new GrpcStatusError(grpcStatus.invalidArgument, 'etcdserver: unknown comparison');
  }
  return {
    key: textOf(message['key']),
    rangeEnd: textOf(message['rangeEnd']),
    result,
    target:
      kind === 'value'
        ? { kind, value: new Uint8Array((message['value'] as Uint8Array | undefined) ?? []) }
        : { kind, number: (message[fieldOfTarget[kind]] as bigint | undefined) ?? 0n },
  };
}

export function pairOf(item: Change): ProtoMessage {
  return {
    key: bytesOfText(item.key),
    createRevision: item.createRevision,
    modRevision: item.modRevision,
    version: item.version,
    value: item.value,
    lease: item.leaseId,
  };
}

/** The message of an answer; nested ones have a header with their revision only, as in etcd. */
export function answerMessageOf(answer: OperationAnswer, header: ProtoMessage): ProtoMessage {
  switch (answer.kind) {
    case 'range':
      return { header, pairs: answer.items.map(pairOf), more: answer.more, count: answer.count };
    case 'put':
      return { header, previous: previousOf(answer.previous) };
    case 'deleteRange':
      return { header, deleted: answer.deleted, previous: answer.previous.map(pairOf) };
    case 'txn':
      return {
        header,
        succeeded: answer.succeeded,
        responses: answer.answers.map((nested) => ({
          [nested.kind]: answerMessageOf(nested, { revision: nested.revision }),
        })),
      };
  }
}

/** A message may have hundreds of thousands of items; so many are encoded between two looks at the clock. */
const itemsAtOnce = 500;
/** About what a pair takes: lib/turns/turns.ts. */
export const unitsOfPair = 400;

/**
 * A message with many items, encoded: parts of a message are one of all, one behind the other.
 * @param fieldOf the message's field that has these items
 * @param units of an item
 */
export async function encodedInParts<Item>(
  codec: ProtoCodec,
  message: ProtoMessage,
  items: readonly Item[],
  fieldOf: (some: readonly Item[]) => ProtoMessage,
  work: Work,
  units: number,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let from = 0;
  do {
    const some = items.slice(from, from + itemsAtOnce);
    parts.push(codec.encode(from === 0 ? { ...message, ...fieldOf(some) } : fieldOf(some)));
    if (work.spend(some.length * units)) await work.pause();
    from += itemsAtOnce;
  } while (from < items.length);
  return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
}

/** As `answerMessageOf`, encoded. */
export function encodedRange(
  answer: OperationAnswer & { readonly kind: 'range' },
  header: ProtoMessage,
  codec: ProtoCodec,
  work: Work,
): Promise<Uint8Array> {
  const { items, more, count } = answer;
  const pairsOf = (some: typeof items) => ({ pairs: some.map(pairOf) });
  return encodedInParts(codec, { header, more, count }, items, pairsOf, work, unitsOfPair);
}

export function previousOf(item: LiveChange | null): ProtoMessage | null {
  return item === null ? null : pairOf(item);
}
