/**
 * The part of the WebAssembly interface that we use; TypeScript has it only in the browser's
 * library.
 */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array<ArrayBuffer>);
    static exports(module: Module): { readonly name: string; readonly kind: string }[];
  }
  /** A trap of a kernel. */
  class RuntimeError extends Error {}
  class Memory {
    constructor(descriptor: { initial: number; maximum: number });
    /** Another one after the memory has grown; the one before is empty then, and views of it. */
    readonly buffer: ArrayBuffer;
    /** Returns the number of pages before. */
    grow(pages: number): number;
  }
  class Instance {
    constructor(module: Module, imports: Record<string, Record<string, unknown>>);
    readonly exports: Record<string, unknown>;
  }
}
