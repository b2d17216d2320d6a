/**
 * Programs of a cluster on this machine: what they use is noted, and who ends without being told to is started again, as
 * systemd or Kubernetes would.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Program } from '../integration/process.ts';
import { ProcessUsage } from './process_usage.ts';

const lookMillis = 500;
/** How much of a log tells why a process ended. */
const logTail = 1_500;

export class WatchedPrograms {
  readonly #programs: () => readonly Program[];
  readonly #report: (line: string) => void;
  readonly usage: ProcessUsage = new ProcessUsage();
  /** Processes that ended by themselves. */
  readonly surprises: string[] = [];
  /** Programs that have been told to end. */
  readonly #down = new Set<Program>();
  readonly #ended = new AbortController();
  #watching: Promise<void> = Promise.resolve();

  /** @param programs those that there are at the moment */
  constructor(programs: () => readonly Program[], report: (line: string) => void) {
    this.#programs = programs;
    this.#report = report;
  }

  /** From now on; all have been started. */
  watch(): void {
    this.#watching = this.#watch();
  }

  begin(program: Program): void {
    program.start();
    this.#down.delete(program);
  }

  async end(program: Program, signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    this.#down.add(program);
    this.#look();
    await program.stop(signal);
  }

  #look(): void {
    this.usage.look('this process', process.pid);
    for (const program of this.#programs()) {
      if (program.running) this.usage.look(program.name, program.pid);
    }
  }

  async #watch(): Promise<void> {
    const { signal } = this.#ended;
    while (!signal.aborted) {
      this.#look();
      for (const program of this.#programs()) {
        if (program.running || this.#down.has(program)) continue;
        const text = `${new Date().toISOString()} ${program.name} ended by itself: ${program.log().slice(-logTail)}`;
        this.surprises.push(text);
        this.#report(text);
        program.start();
      }
      await delay(lookMillis, undefined, { signal }).catch(() => {});
    }
  }

  /** Ends all. */
  async stop(): Promise<void> {
    this.#ended.abort();
    await this.#watching;
    this.#look();
    await Promise.all(this.#programs().map((program) => program.stop('SIGKILL')));
  }
}
