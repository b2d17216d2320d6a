import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parametersOfMultipart } from './multipart.ts';

async function encoded(form: FormData): Promise<[body: Uint8Array, contentType: string]> {
  const request = new Request('http://x', { method: 'POST', body: form });
  return [new Uint8Array(await request.arrayBuffer()), request.headers.get('content-type')!];
}

test('fields of a form are its parameters, in their order', async () => {
  const form = new FormData();
  const fields = [
    ['target', 'a.*\r\n--b'],
    ['target', 'ü'],
    ['from', ''],
  ] as const;
  for (const [name, value] of fields) form.append(name, value);
  assert.deepEqual([...parametersOfMultipart(...(await encoded(form)))], fields);
  const [body, contentType] = await encoded(new FormData());
  assert.deepEqual([...parametersOfMultipart(body, contentType)], []);
});

test('what is no form of fields is refused', async () => {
  const form = new FormData();
  form.append('a', new Blob(['x']), 'x.txt');
  const [file, fileType] = await encoded(form);
  assert.throws(() => parametersOfMultipart(file, fileType), /files are not taken/);
  for (const [text, reason] of [
    ['', /its end is missing/],
    ['--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1', /a part is cut off/],
    ['--x\r\nContent-Disposition: form-data; name="a"\r\n--x--', /a part is cut off/],
    ['--x\r\nContent-Type: text/plain\r\n\r\n1\r\n--x--', /a part has no name/],
    ['--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n--x\r\n', /a part is cut off/],
    [
      `${'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'.repeat(1001)}--x--`,
      /more than 1000/,
    ],
  ] as const) {
    const body = Buffer.from(text);
    assert.throws(() => parametersOfMultipart(body, 'multipart/form-data; boundary=x'), reason);
  }
  assert.throws(() => parametersOfMultipart(file, 'multipart/form-data'), /no boundary/);
});
