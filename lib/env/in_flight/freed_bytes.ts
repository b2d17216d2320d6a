/** Memory that is given back before the collector comes. */

/** The collector does as well with less. */
const fewBytes: number = 16 << 10;

/**
 * Frees the memory of bytes that nobody has any more; no view of it has a byte after that. What waits for the collector instead
 * makes it go through all that there is with each 64 MiB, and the next bytes come to memory that no cache holds.
 *
 * @param bytes nothing is freed of those that are few, or not all of their buffer
 */
export function freeBytes(bytes: Uint8Array): void {
  const { buffer, length } = bytes;
  const isAll = length === buffer.byteLength && length > fewBytes;
  if (isAll && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

/** Memory that is nobody's once it was sent. */
const sentOnce = new WeakSet<ArrayBufferLike>();

/**
 * Says of bytes that nobody has a view of their buffer once they were sent, so that whoever sends them frees all of it.
 * @returns the bytes
 */
export function freeWhenSent<Bytes extends Uint8Array>(bytes: Bytes): Bytes {
  sentOnce.add(bytes.buffer);
  return bytes;
}

/** After bytes were sent: frees them where that was said. */
export function freeSent({ buffer }: Uint8Array): void {
  if (buffer instanceof ArrayBuffer && sentOnce.delete(buffer)) buffer.transfer(0);
}
