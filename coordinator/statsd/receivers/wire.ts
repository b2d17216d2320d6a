/** Messages of lib/proto/statsd.proto. */
import { loadProto, type ProtoMessage, type ProtoSchema } from '#lib/env/proto.ts';
import { badRequest } from '#lib/errors.ts';
import { type Receivers, receiversProblem } from './receivers.ts';

const schema: ProtoSchema = loadProto(new URL('../../../lib/proto/statsd.proto', import.meta.url));
const requestCodec = schema.codec('tsdb.statsd.v1.TakeRequest');
const responseCodec = schema.codec('tsdb.statsd.v1.TakeResponse');

export const takePath = '/tsdb.statsd.v1.Statsd/Take';

export interface TakeRequest {
  /** Newest that the sender knows; null for none. */
  readonly receivers: Receivers | null;
  readonly sender: bigint;
  readonly sequence: bigint;
  readonly lines: Uint8Array;
  /** Of the receivers by which this one was chosen; 0 for none. */
  readonly version: number;
}

export function encodeTakeRequest(request: TakeRequest): Uint8Array {
  return requestCodec.encode({ ...request });
}

/** @throws {TsdbError} BAD_REQUEST */
export function decodeTakeRequest(bytes: Uint8Array): TakeRequest {
  const { receivers, sender, sequence, lines, version } = requestCodec.decode(bytes);
  return {
    receivers: receiversOf(receivers),
    sender,
    sequence,
    lines,
    version: Number(version),
  };
}

export function encodeTakeResponse(receivers: Receivers | null): Uint8Array {
  return responseCodec.encode({ receivers });
}

/** @throws {TsdbError} BAD_REQUEST */
export function decodeTakeResponse(bytes: Uint8Array): Receivers | null {
  return receiversOf(responseCodec.decode(bytes)['receivers']);
}

function receiversOf(message: ProtoMessage | null): Receivers | null {
  if (message === null) return null;
  const { version, members, before, fromMillis } = message;
  const receivers = { version: Number(version), members, before, fromMillis: Number(fromMillis) };
  const problem = receiversProblem(receivers);
  if (problem !== null) throw badRequest(`receivers: ${problem}`);
  return receivers;
}
