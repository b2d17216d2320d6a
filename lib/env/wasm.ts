/** Compiled kernels from disk: read once at start, before anything is served. */
import { readFileSync } from 'node:fs';

/**
 * Compiles a WebAssembly file that `npm run setup` has built.
 * @throws {Error} when the file is missing, with the command that makes it
 */
export function compileWasmFile(file: URL): WebAssembly.Module {
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = new Uint8Array(readFileSync(file));
  } catch (error) {
    throw new Error('a compiled kernel is missing: run "npm run setup"', { cause: error });
  }
  return new WebAssembly.Module(bytes);
}
