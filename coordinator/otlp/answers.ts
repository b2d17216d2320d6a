/** Answers of OTLP: what was refused of an export, and why one failed, as protobuf and as JSON. */
import { BytesWriter } from '#engine/messages/bytes_writer.ts';
import type { RefusedPoints } from '../ingest/points_of_rows.ts';

/** ExportMetricsServiceResponse. */
export function exportAnswer({ count, message }: RefusedPoints): Uint8Array {
  const out = new BytesWriter();
  if (message === '') return out.finish();
  field(out, 1, () => {
    if (count > 0) integer(out, 1, count);
    text(out, 2, message);
  });
  return out.finish();
}

export function exportJson({ count, message }: RefusedPoints): object {
  if (message === '') return {};
  return { partialSuccess: { rejectedDataPoints: String(count), errorMessage: message } };
}

/**
 * google.rpc.Status.
 * @param retrySeconds when it may be tried again; 0 for nothing about that
 */
export function statusMessage(code: number, message: string, retrySeconds = 0): Uint8Array {
  const out = new BytesWriter();
  integer(out, 1, code);
  text(out, 2, message);
  if (retrySeconds > 0) {
    field(out, 3, () => {
      text(out, 1, 'type.googleapis.com/google.rpc.RetryInfo');
      field(out, 2, () => field(out, 1, () => integer(out, 1, retrySeconds)));
    });
  }
  return out.finish();
}

function integer(out: BytesWriter, number: number, value: number): void {
  out.varint(number * 8);
  out.varint(value);
}

function text(out: BytesWriter, number: number, value: string): void {
  const bytes = Buffer.from(value);
  field(out, number, () => out.copy(bytes, 0, bytes.length));
}

function field(out: BytesWriter, number: number, write: () => void): void {
  out.varint(number * 8 + 2);
  const from = out.beginLength();
  write();
  out.endLength(from);
}
