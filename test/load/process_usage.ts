/** CPU time and memory of processes that are killed and started again, from Linux' /proc. */
import { readFileSync } from 'node:fs';

/** Linux counts CPU time for users in hundredths of a second, on every architecture. */
const ticksPerSecond = 100;

export interface Usage {
  readonly cpuSeconds: number;
  readonly rssMaxBytes: number;
}

interface Seen {
  pid: number;
  /** Of processes before this one. */
  earlierSeconds: number;
  seconds: number;
  rssMaxBytes: number;
}

export class ProcessUsage {
  readonly #seen = new Map<string, Seen>();

  /** To be called again and again: what a process uses after the last call before its end is lost. */
  look(name: string, pid: number): void {
    let seconds: number;
    let rssMaxBytes: number;
    try {
      // The name in parentheses may have spaces; fields are counted from behind it.
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      seconds = (Number(fields[11]) + Number(fields[12])) / ticksPerSecond;
      const status = readFileSync(`/proc/${pid}/status`, 'utf8');
      rssMaxBytes = Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0) * 1024;
    } catch {
      return; // It has ended.
    }
    const seen = this.#seen.get(name) ?? { pid, earlierSeconds: 0, seconds: 0, rssMaxBytes: 0 };
    if (seen.pid !== pid) seen.earlierSeconds += seen.seconds;
    seen.pid = pid;
    seen.seconds = seconds;
    seen.rssMaxBytes = Math.max(seen.rssMaxBytes, rssMaxBytes);
    this.#seen.set(name, seen);
  }

  all(): ReadonlyMap<string, Usage> {
    return new Map(
      [...this.#seen].map(([name, { earlierSeconds, seconds, rssMaxBytes }]) => [
        name,
        { cpuSeconds: earlierSeconds + seconds, rssMaxBytes },
      ]),
    );
  }
}
