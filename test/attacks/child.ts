/** Processes beside a test that answer one question after the other. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

export class Child<Question extends object, Answer> {
  readonly #process: ChildProcess;
  readonly #file: string;

  /** @param file beside this one */
  constructor(file: string, args: readonly string[]) {
    this.#file = file;
    // Not what this process was started with, as the flags of a test.
    this.#process = fork(join(import.meta.dirname, file), args, { execArgv: [] });
  }

  async ask(question: Question): Promise<Answer> {
    const isOver = new AbortController();
    const { signal } = isOver;
    try {
      const answered = once(this.#process, 'message', { signal }) as Promise<[Answer]>;
      const ended = once(this.#process, 'exit', { signal }).then(([code]) => {
        throw new Error(`${this.#file} has ended: ${code as number | null}`);
      });
      ended.catch(() => {});
      answered.catch(() => {});
      if (!this.#process.connected) throw new Error(`${this.#file} has ended`);
      this.#process.send(question);
      const [answer] = await Promise.race([answered, ended]);
      return answer;
    } finally {
      isOver.abort();
    }
  }

  stop(): void {
    this.#process.kill('SIGKILL');
  }
}
