/** How far an import has come, in a file: one that was stopped goes on there. */
import type { Disk } from '#lib/env/env.ts';
import { badRequest, messageOf, TsdbError } from '#lib/errors.ts';

/** What an import is of; another one does not go on with its file. */
export interface ImportOf {
  /** As of the command: m3, prometheus, remote. */
  readonly kind: string;
  /** Folder or URL, namespace, range and selector. */
  readonly source: string;
  readonly coordinator: string;
}

interface TakenPart {
  readonly rows: number;
  readonly refused: number;
  /** Something of it could not be read. */
  readonly isDamaged: boolean;
  /** Series of it that were left out, since their tags cannot be read. */
  readonly untagged: number;
}

export interface Progress {
  /** Parts that were read, by their names. One of which rows were refused, or that is damaged, is read again by the next call. */
  readonly taken: ReadonlyMap<string, TakenPart>;
  /** Names and contents of parts that were listed, and of which not all was taken: the source may delete them meanwhile. */
  readonly waiting: ReadonlyMap<string, readonly string[]>;
  /** The part that was begun, how many of its series are whole, and the rows of these: others are sent again by a call that goes on. */
  readonly part: string;
  readonly series: number;
  readonly rows: number;
  readonly refused: number;
}

export const nothingDone: Progress = {
  taken: new Map(),
  waiting: new Map(),
  part: '',
  series: 0,
  rows: 0,
  refused: 0,
};

export function isDone({ taken }: Progress, part: string): boolean {
  const found = taken.get(part);
  return found !== undefined && found.refused === 0 && !found.isDamaged;
}

/** Rows that were written, those of parts that are gone too. */
export function rowsOf({ taken, part, rows }: Progress): number {
  let sum = rows;
  for (const [name, of] of taken) {
    // It was begun once more.
    if (name !== part) sum += of.rows;
  }
  return sum;
}

export interface NotTaken {
  /** Rows. */
  readonly refused: number;
  /** Series. */
  readonly untagged: number;
}

/** Of parts that the source has: what was not taken of others is in these, or is told of them. */
export function notTakenOf(
  { taken, part, refused }: Progress,
  listed: readonly { readonly name: string }[],
): NotTaken {
  const sum = { refused, untagged: 0 };
  for (const { name } of listed) {
    const of = taken.get(name);
    if (of === undefined || name === part) continue;
    sum.refused += of.refused;
    sum.untagged += of.untagged;
  }
  return sum;
}

/** Whatever the address ends with. */
function isSame(stored: unknown, of: ImportOf): boolean {
  const { coordinator, ...rest } = (stored ?? {}) as Partial<ImportOf>;
  const known = { ...rest, coordinator: coordinator?.replace(/(?<=.)\/+$/, '') };
  return JSON.stringify(known) === JSON.stringify(of);
}

/** A namespace that rows are written into. */
export interface WrittenNamespace {
  readonly name: string;
  /** Of no other one of its name; 0 when the coordinator does not say it. */
  readonly number: number;
  readonly retentionNanos: bigint;
}

/** Number and retention by name, as they are stored; a state of before has numbers alone. */
type StoredNamespaces = Readonly<
  Record<string, number | { readonly number: number; readonly retentionNanos: string }>
>;

function namespacesOf(stored: StoredNamespaces): readonly WrittenNamespace[] {
  return Object.entries(stored).map(([name, known]) => {
    if (typeof known === 'number') return { name, number: known, retentionNanos: 0n };
    return { name, number: known.number, retentionNanos: BigInt(known.retentionNanos) };
  });
}

type JournalDisk = Pick<Disk, 'readFile' | 'size' | 'writeFileAtomic'>;

export class Journal {
  readonly #disk: JournalDisk;
  readonly #path: string;
  readonly #of: ImportOf;
  /** Those that have all rows. */
  #namespaces: readonly WrittenNamespace[];

  /** @param namespaces that take rows now */
  constructor(
    disk: JournalDisk,
    path: string,
    of: ImportOf,
    namespaces: readonly WrittenNamespace[],
  ) {
    this.#disk = disk;
    this.#path = path;
    this.#of = of;
    this.#namespaces = namespaces;
  }

  /** @throws {TsdbError} BAD_REQUEST when the file is none, of another import, or its rows are not there any more */
  async read(): Promise<Progress> {
    if ((await this.#disk.size(this.#path)) === null) return nothingDone;
    let stored: Partial<Record<keyof Progress | 'of' | 'namespaces', unknown>>;
    try {
      stored = JSON.parse(Buffer.from(await this.#disk.readFile(this.#path)).toString()) as object;
    } catch (error) {
      throw badRequest(`--state ${this.#path}: not the state of an import: ${messageOf(error)}`, {
        cause: error,
      });
    }
    const { of, taken, waiting, part, series, rows, refused } = stored;
    if (!isSame(of, this.#of)) {
      throw badRequest(
        `--state ${this.#path}: of another import, ${JSON.stringify(of)}: name another file`,
      );
    }
    const now = this.#namespaces;
    this.#namespaces = namespacesOf((stored.namespaces ?? {}) as StoredNamespaces);
    if (this.#namespaces.length === 0) this.#namespaces = now;
    else this.checkNamespaces(now);
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
      waiting: new Map(Object.entries((waiting ?? {}) as Record<string, readonly string[]>)),
      part: typeof part === 'string' ? part : '',
      series: Number(series ?? 0),
      rows: Number(rows ?? 0),
      refused: Number(refused ?? 0),
    };
  }

  /**
   * Rows are in all namespaces that took them, and are read from any of these. One that was deleted is passed over where another
   * one keeps rows as long; not one that was made again, which answers for times of which it has nothing.
   * @param now those that take rows now. A lower number is that of a key-value store that was restored
   * @throws {TsdbError} BAD_REQUEST when rows that were written are gone
   */
  checkNamespaces(now: readonly WrittenNamespace[]): void {
    const numbers = new Map(now.map(({ name, number }) => [name, number]));
    const left = this.#namespaces.filter(
      ({ name, number }) => number === 0 || (numbers.get(name) ?? Infinity) <= number,
    );
    const gone = this.#namespaces.filter(
      (each) =>
        !left.includes(each) &&
        (numbers.has(each.name) ||
          !left.some(({ retentionNanos }) => retentionNanos >= each.retentionNanos)),
    );
    if (gone.length > 0) {
      const names = gone.map(({ name }) => name).join(', ');
      throw badRequest(
        `--state ${this.#path}: its rows went into ${names}, deleted since: remove the file, and all is taken over anew`,
      );
    }
    this.#namespaces = left;
  }

  /** All or nothing. @throws {TsdbError} CONFLICT when another call writes it at the same time */
  async write(progress: Progress): Promise<void> {
    const { taken, waiting, ...begun } = progress;
    const stored = {
      of: this.#of,
      namespaces: Object.fromEntries(
        this.#namespaces.map(({ name, number, retentionNanos }) => [
          name,
          { number, retentionNanos: String(retentionNanos) },
        ]),
      ),
      ...begun,
      taken: Object.fromEntries(taken),
      waiting: Object.fromEntries(waiting),
    };
    try {
      await this.#disk.writeFileAtomic(this.#path, Buffer.from(`${JSON.stringify(stored)}\n`));
    } catch (error) {
      const { code, syscall } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' || syscall !== 'rename') throw error;
      // It has put in place what both have written.
      throw new TsdbError(
        'CONFLICT',
        `--state ${this.#path}: another call writes it at the same time: wait for its end, or name another file`,
        { cause: error },
      );
    }
  }
}
