/**
 * The level of formats that a data folder may hold (lib/format_level.ts), as the folder says it. A
 * file that is not there says the first level, so that what release 0.1.0 left needs none.
 */
import type { Disk } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { formatLevelFirst, formatLevelNewest } from '#lib/format_level.ts';

export const formatLevelFile = 'formats.json';

/**
 * @throws {TsdbError} INTERNAL when the folder may hold what this release cannot read, or does not
 *   say what it holds
 */
export async function readFormatLevel(disk: Disk, dataFolder: string): Promise<number> {
  const path = `${dataFolder}/${formatLevelFile}`;
  if ((await disk.size(path)) === null) return formatLevelFirst;
  let level: unknown;
  try {
    ({ level } = JSON.parse(new TextDecoder().decode(await disk.readFile(path))) as {
      level?: unknown;
    });
  } catch (error) {
    throw new TsdbError('INTERNAL', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
  if (typeof level !== 'number' || !Number.isSafeInteger(level) || level < formatLevelFirst) {
    const reason = `level is not a whole number from ${formatLevelFirst}: ${JSON.stringify(level)}`;
    throw new TsdbError('INTERNAL', `cannot read ${path}: ${reason}`);
  }
  if (level > formatLevelNewest) {
    throw new TsdbError(
      'INTERNAL',
      `cannot read the data folder ${dataFolder}: it may hold formats of level ${level}, and this release reads levels up to ${formatLevelNewest}: run the release that wrote it, or a later one`,
    );
  }
  return level;
}

/** On disk when it resolves. */
export async function writeFormatLevel(
  disk: Disk,
  dataFolder: string,
  level: number,
): Promise<void> {
  const text = `${JSON.stringify({ level })}\n`;
  await disk.writeFileAtomic(`${dataFolder}/${formatLevelFile}`, new TextEncoder().encode(text));
}
