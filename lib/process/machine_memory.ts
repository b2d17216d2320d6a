/** Memory that this process may have at most. */
import { totalmem } from 'node:os';

/** Bytes of the machine, or of the container where that has less. */
export function machineMemoryBytes(): number {
  // 0 says that it is not known.
  const containerBytes = process.constrainedMemory() || Infinity;
  return Math.min(totalmem(), containerBytes);
}
