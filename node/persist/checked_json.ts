/** Small files of JSON that tell whether they are whole: the CRC-32C of the second line, and that line. */
import type { Disk } from '#lib/env/env.ts';
import { crc32c } from '#lib/hashing/crc32c.ts';

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true });

/** On disk when it resolves: all or nothing. */
export async function writeCheckedJson(disk: Disk, path: string, json: object): Promise<void> {
  const body = JSON.stringify(json);
  const checksum = crc32c(encoder.encode(body)).toString(16).padStart(8, '0');
  await disk.writeFileAtomic(path, encoder.encode(`${checksum}\n${body}\n`));
}

/**
 * @returns null when there is no file
 * @throws {Error} when it is not as it was written, and what the disk rejects with
 */
export async function readCheckedJson(disk: Disk, path: string): Promise<unknown> {
  if ((await disk.size(path)) === null) return null;
  const [checksum = '', body = ''] = decoder.decode(await disk.readFile(path)).split('\n');
  const isWhole =
    /^[0-9a-f]{8}$/.test(checksum) &&
    Number.parseInt(checksum, 16) === crc32c(encoder.encode(body));
  if (!isWhole) throw new Error('the checksum is wrong');
  return JSON.parse(body);
}
