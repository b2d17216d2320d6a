/** For tests of who gives the memory of a decoder back. */

/** How many memories of WebAssembly are made while that runs. */
export async function memoriesMade(run: () => Promise<void> | void): Promise<number> {
  const { Memory } = WebAssembly;
  let made = 0;
  WebAssembly.Memory = class extends Memory {
    constructor(descriptor: ConstructorParameters<typeof Memory>[0]) {
      super(descriptor);
      made += 1;
    }
  };
  try {
    await run();
  } finally {
    WebAssembly.Memory = Memory;
  }
  return made;
}
