/** A server that cannot have its address. */
import { messageOf, TsdbError } from '../errors.ts';

/** What the system says of an address, in words; the rest is as the system has it. */
const reasons: readonly (readonly [code: string, reason: string])[] = [
  ['EADDRINUSE', 'another program has this port'],
  ['EADDRNOTAVAIL', 'this machine has no such address'],
  ['EACCES', 'this user may not use the port'],
];

export class ListenError extends TsdbError {
  readonly port: number;

  /** @param error of the system, or one whose message has its code */
  constructor(host: string, port: number, error: unknown) {
    const message = messageOf(error);
    const reason = reasons.find(([code]) => message.includes(code))?.[1] ?? message;
    const address = `${host.includes(':') ? `[${host}]` : host}:${port}`;
    super('UNAVAILABLE', `cannot listen on ${address}: ${reason}`, { cause: error });
    this.port = port;
  }
}
