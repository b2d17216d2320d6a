/** A short name for a long text: 128 bits of its SHA-256, so that no two texts ever have the same. */
import { hash } from 'node:crypto';

/** @returns 32 hexadecimal digits */
export function digest128(text: string | Uint8Array): string {
  return hash('sha256', text, 'hex').slice(0, 32);
}
