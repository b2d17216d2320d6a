import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { exportsFileOf, exportsOf, kernels } from './kernel_exports.mjs';

function instantiate(module: WebAssembly.Module): Record<string, unknown> {
  const memory = new WebAssembly.Memory({ initial: 16, maximum: 65_536 });
  return new WebAssembly.Instance(module, { env: { memory, abort: () => {} } }).exports;
}

for (const kernel of kernels()) {
  const { name, file } = kernel;

  test(`the committed types of kernel ${name} are those that its sources give`, () => {
    const { path, text } = exportsFileOf(kernel);
    assert.equal(readFileSync(path, 'utf8'), text, 'run node engine/build_kernels.mjs');
  });

  test(`the types of kernel ${name} name what the compiled module exports`, () => {
    const wasm = join(import.meta.dirname, 'build', `${name}.wasm`);
    const module = new WebAssembly.Module(new Uint8Array(readFileSync(wasm)));
    const typed = exportsOf(file);
    const compiled = WebAssembly.Module.exports(module).filter(({ kind }) => kind !== 'memory');
    const names = (list: readonly { name: string }[]) => list.map((one) => one.name).sort();
    assert.deepEqual(names(typed), names(compiled));
    const values = instantiate(module);
    for (const { kind, name: key, parameters } of typed) {
      const value = values[key];
      if (kind === 'function') {
        assert.equal((value as () => void).length, parameters.length, `parameters of ${key}`);
      } else assert.equal(typeof (value as { value: unknown }).value, 'number', key);
    }
  });
}
