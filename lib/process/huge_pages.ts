/**
 * Huge pages behind memories that are read at random. With a million series each row touches lines
 * of memory that lie hundreds of megabytes apart; behind pages of 4 KiB every one of them also
 * walks through the page tables, in a virtual machine those of guest and host. It is advice: where
 * there are no huge pages ("never" in /sys/kernel/mm/transparent_hugepage/enabled, another system
 * than Linux, a Node that was built without node:ffi), all works as without.
 */

/** MADV_HUGEPAGE of madvise(2). */
const adviceHugePages = 14;

interface SystemCalls {
  /** Kept, for what it opened is closed with it. */
  readonly library: unknown;
  readonly advise: (address: bigint, bytes: bigint, advice: number) => number;
  readonly addressOf: (view: Uint8Array) => bigint;
}

let calls: SystemCalls | null | undefined;

/**
 * Asks for huge pages in a part of a memory, also after what the memory is yet to grow by. Ask
 * only where nearly all bytes will be used, one after the other: one byte that is touched takes 2
 * MiB.
 * @param start where the part begins in the memory; at a page of the system, else the advice is
 * refused
 * @param bytes at most up to the memory's maximum: that much is reserved from the beginning
 * @returns whether the system took the advice
 */
export function adviseHugePages(memory: WebAssembly.Memory, start: number, bytes: number): boolean {
  if (calls === undefined) calls = systemCalls();
  if (calls === null || bytes <= 0) return false;
  const address = calls.addressOf(new Uint8Array(memory.buffer)) + BigInt(start);
  return calls.advise(address, BigInt(bytes), adviceHugePages) === 0;
}

function systemCalls(): SystemCalls | null {
  if (process.platform !== 'linux') return null;
  const emitWarning = process.emitWarning.bind(process);
  try {
    // That the module is experimental is nothing that an operator could act on; what happens
    // without it is said above.
    process.emitWarning = () => undefined;
    const ffi = process.getBuiltinModule('node:ffi');
    const { lib, functions } = ffi.dlopen(null, {
      madvise: { arguments: ['pointer', 'u64', 'i32'], return: 'i32' },
    });
    return {
      library: lib,
      advise: functions.madvise,
      addressOf: (view) => ffi.getRawPointer(view),
    };
  } catch {
    return null;
  } finally {
    process.emitWarning = emitWarning;
  }
}
