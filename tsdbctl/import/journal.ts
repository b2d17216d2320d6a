/** How far an import has come, in a file: one that was stopped goes on there. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest, messageOf } from '#lib/errors.ts';

/** What an import is of; another one does not go on with its file. */
export interface ImportOf {
  /** As of the command: m3, prometheus, remote. */
  readonly kind: string;
  /** Folder or URL, namespace, range and selector. */
  readonly source: string;
  readonly coordinator: string;
}

export interface Progress {
  /** Names of parts that are whole. */
  readonly done: ReadonlySet<string>;
  /** The part that was begun, and how many of its series are whole. */
  readonly part: string;
  readonly series: number;
  readonly rows: number;
  readonly refused: number;
}

export const nothingDone: Progress = {
  done: new Set(),
  part: '',
  series: 0,
  rows: 0,
  refused: 0,
};

type JournalDisk = Pick<Disk, 'readFile' | 'size' | 'writeFileAtomic'>;

export class Journal {
  readonly #disk: JournalDisk;
  readonly #path: string;
  readonly #of: ImportOf;

  constructor(disk: JournalDisk, path: string, of: ImportOf) {
    this.#disk = disk;
    this.#path = path;
    this.#of = of;
  }

  /** @throws {TsdbError} BAD_REQUEST when the file is none, or of another import */
  async read(): Promise<Progress> {
    if ((await this.#disk.size(this.#path)) === null) return nothingDone;
    let stored: Partial<Record<keyof Progress | 'of', unknown>>;
    try {
      stored = JSON.parse(Buffer.from(await this.#disk.readFile(this.#path)).toString()) as object;
    } catch (error) {
      throw badRequest(`--state ${this.#path}: not the state of an import: ${messageOf(error)}`, {
        cause: error,
      });
    }
    const { of, done, part, series, rows, refused } = stored;
    if (JSON.stringify(of) !== JSON.stringify(this.#of)) {
      throw badRequest(
        `--state ${this.#path}: of another import, ${JSON.stringify(of)}: name another file`,
      );
    }
    return {
      done: new Set(Array.isArray(done) ? done.map(String) : []),
      part: typeof part === 'string' ? part : '',
      series: Number(series ?? 0),
      rows: Number(rows ?? 0),
      refused: Number(refused ?? 0),
    };
  }

  /** All or nothing. */
  async write(progress: Progress): Promise<void> {
    const stored = { of: this.#of, ...progress, done: [...progress.done] };
    await this.#disk.writeFileAtomic(this.#path, Buffer.from(`${JSON.stringify(stored)}\n`));
  }
}
