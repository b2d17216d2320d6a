/** Files that commands are given, in YAML or JSON. */
import { readConfigFiles } from '#lib/config/resolve/text.ts';
import { realEnv } from '#lib/env/real.ts';
import { badRequest } from '#lib/errors.ts';
import { checkIsThere } from './command.ts';

/**
 * The mapping that a file is; variables of the environment are `${NAME:default}` in it.
 * @param path `-` is the standard input
 * @throws {TsdbError} BAD_REQUEST that names file and line, NOT_FOUND
 */
export async function readMapping(path: string): Promise<Record<string, unknown>> {
  return mappingOf(path, await textOf(path));
}

/** @throws {TsdbError} BAD_REQUEST */
export function mappingOf(path: string, text: string): Record<string, unknown> {
  const problems: string[] = [];
  const { value } = readConfigFiles([{ path, text }], process.env, problems);
  if (problems.length > 0) throw badRequest(problems.join('\n'));
  return value;
}

async function textOf(path: string): Promise<string> {
  if (path !== '-') {
    await checkIsThere('file', path);
    return new TextDecoder().decode(await realEnv.disk.readFile(path));
  }
  const chunks: Uint8Array[] = [];
  for await (const chunk of process.stdin) chunks.push(chunk as Uint8Array);
  return Buffer.concat(chunks).toString();
}
