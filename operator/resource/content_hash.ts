/** A short hash of plain JSON, by which names and annotations tell one content from another. */
import { createHash } from 'node:crypto';

/** First ten hexadecimal digits of the content's SHA-256. */
export function contentHash(content: unknown): string {
  return createHash('sha256').update(JSON.stringify(content)).digest('hex').slice(0, 10);
}
