/** What a disk says of bytes that it holds and cannot read. */

/** Of the medium, of a checksum of the file system, of its structure, of the device below. */
const unreadableCodes: ReadonlySet<unknown> = new Set(['EIO', 'EBADMSG', 'EUCLEAN', 'ENODATA']);

/** Whether the disk says that it cannot read what it holds: it may read what lies beside it. */
export function isUnreadable(error: unknown): boolean {
  return unreadableCodes.has((error as { code?: unknown } | null)?.code);
}
