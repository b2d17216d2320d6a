/** The sockets on which the processes of a pod listen, as the kernel has them. */
import { readFileSync } from 'node:fs';
import { processesOf } from './machines.ts';

/** State of a socket that listens, in /proc/net/tcp. */
const listening = '0A';

/** @returns `any:9000`, `loopback:9004` and so on, sorted; an address of the pod alone is its own */
export function listenersOf(pod: string): string[] {
  const [pid] = processesOf(pod);
  if (pid === undefined) throw new Error(`no process of pod ${pod}`);
  const lines = ['tcp', 'tcp6'].flatMap((name) =>
    readFileSync(`/proc/${pid}/net/${name}`, 'utf8').trim().split('\n').slice(1),
  );
  const found = lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state]) => state === listening)
    .map(([, local]) => {
      const [address, port] = local!.split(':') as [string, string];
      return `${scopeOf(address)}:${Number.parseInt(port, 16)}`;
    });
  return [...new Set(found)].sort();
}

/** Addresses are in hexadecimal, words of four bytes, each with its bytes turned round. */
function scopeOf(address: string): string {
  if (/^0+$/.test(address)) return 'any';
  const isLoopback = address === `${'0'.repeat(24)}01000000` || address.slice(-8).endsWith('7F');
  return isLoopback ? 'loopback' : 'pod';
}
