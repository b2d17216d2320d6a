/** Answers of OTLP, read again. */
import { eachField } from '#engine/otlp/labels/attributes.ts';
import { Wire } from '#engine/otlp/wire/wire.ts';

/** Of a google.rpc.Status. */
export function statusOfMessage(bytes: Uint8Array): { code: number; message: string } {
  const wire = new Wire(bytes);
  let code = 0;
  let message = '';
  eachField(wire, 0, bytes.length, (number, _type, from, past) => {
    if (number === 1) code = wire.bytes[from]!;
    if (number === 2) message = wire.buffer.toString('utf8', from, past);
  });
  return { code, message };
}
