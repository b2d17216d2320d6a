/** What answers of a session take in a process: those of the HTTP API, and of 9001 and 9003. */
import { machineMemoryBytes } from '../process/machine_memory.ts';
import { ReadMemory, type ReadMemoryClock } from './read_memory.ts';

/** Of the machine's memory when nothing says how much; a small one has so much, too. */
const defaultPart = 1 / 8;
const defaultBytesMin: number = 64 << 20;

/** @param bytesMax as configured, or null */
export function openSessionMemory(clock: ReadMemoryClock, bytesMax: number | null): ReadMemory {
  const part = Math.floor(machineMemoryBytes() * defaultPart);
  return new ReadMemory({
    clock,
    bytesMax: bytesMax ?? Math.max(defaultBytesMin, part),
    allowance: 'queries may take (coordinator.limits.maxReadBytesInFlight)',
  });
}
