/** Instances of the windows kernel, each with a memory of its own. */
import { compileWasmFile } from '#lib/env/wasm.ts';
import type { WindowsExports } from './windows_exports.ts';

const pagesMin = 16;
const pagesMax = 65_536;

let compiled: WebAssembly.Module | null = null;

export interface WindowsInstance {
  readonly memory: WebAssembly.Memory;
  readonly kernel: WindowsExports;
}

/** @param pages of 64 KiB that its memory has at least */
export function instantiateWindows(pages: number = pagesMin): WindowsInstance {
  compiled ??= compileWasmFile(new URL('../build/windows.wasm', import.meta.url));
  const memory = new WebAssembly.Memory({ initial: Math.max(pagesMin, pages), maximum: pagesMax });
  const { exports } = new WebAssembly.Instance(compiled, {
    env: {
      memory,
      abort: () => {
        throw new Error('the windows kernel stopped');
      },
    },
  });
  return { memory, kernel: exports as unknown as WindowsExports };
}
