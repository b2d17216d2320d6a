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

export interface TakenRows {
  readonly rows: number;
  readonly refused: number;
}

interface TakenPart extends TakenRows {
  /** Something of it could not be read. */
  readonly isDamaged: boolean;
  /** Series of it that were left out, since their tags cannot be read. */
  readonly untagged: number;
}

export interface Progress {
  /** Parts that were read, by their names. One of which rows were refused, or that is damaged, is read again by the next call. */
  readonly taken: ReadonlyMap<string, TakenPart>;
  /** The part that was begun, how many of its series are whole, and its rows so far. */
  readonly part: string;
  readonly series: number;
  readonly rows: number;
  readonly refused: number;
}

export const nothingDone: Progress = {
  taken: new Map(),
  part: '',
  series: 0,
  rows: 0,
  refused: 0,
};

export function isDone({ taken }: Progress, part: string): boolean {
  const found = taken.get(part);
  return found !== undefined && found.refused === 0 && !found.isDamaged;
}

/** Of all parts. */
export function sumOf({ taken, part, rows, refused }: Progress): TakenRows {
  const sum = { rows, refused };
  for (const [name, of] of taken) {
    // It was begun once more.
    if (name === part) continue;
    sum.rows += of.rows;
    sum.refused += of.refused;
  }
  return sum;
}

/** Of all parts that were read. */
export function untaggedOf({ taken }: Progress): number {
  let sum = 0;
  for (const { untagged } of taken.values()) sum += untagged;
  return sum;
}

/** Whatever the address ends with. */
function isSame(stored: unknown, of: ImportOf): boolean {
  const { coordinator, ...rest } = (stored ?? {}) as Partial<ImportOf>;
  const known = { ...rest, coordinator: coordinator?.replace(/(?<=.)\/+$/, '') };
  return JSON.stringify(known) === JSON.stringify(of);
}

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
    const { of, taken, part, series, rows, refused } = stored;
    if (!isSame(of, this.#of)) {
      throw badRequest(
        `--state ${this.#path}: of another import, ${JSON.stringify(of)}: name another file`,
      );
    }
    return {
      taken: new Map(
        Object.entries((taken ?? {}) as Record<string, Partial<TakenPart>>).map(([name, sum]) => [
          name,
          {
            rows: Number(sum.rows),
            refused: Number(sum.refused),
            isDamaged: sum.isDamaged === true,
            untagged: Number(sum.untagged ?? 0),
          },
        ]),
      ),
      part: typeof part === 'string' ? part : '',
      series: Number(series ?? 0),
      rows: Number(rows ?? 0),
      refused: Number(refused ?? 0),
    };
  }

  /** All or nothing. */
  async write(progress: Progress): Promise<void> {
    const stored = { of: this.#of, ...progress, taken: Object.fromEntries(progress.taken) };
    await this.#disk.writeFileAtomic(this.#path, Buffer.from(`${JSON.stringify(stored)}\n`));
  }
}
