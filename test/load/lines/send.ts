/** Sends the bodies of a file over one connection, each when the one before has been taken. */
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { connect } from 'node:net';
import type { BodyFile } from './data.ts';

/** Where a system takes samples. */
export interface Addresses {
  readonly url: string;
  readonly carbonPort: number;
  /** Where it takes OTLP. */
  readonly otlpPath: string;
}

export type Send = (file: BodyFile, to: Addresses) => Promise<void>;

/** @throws {Error} when an answer is none of success */
export async function sendByHttp(
  file: BodyFile,
  url: string,
  contentType: string = 'text/plain',
): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  try {
    for await (const body of bodiesOf(file)) {
      const { status, text } = await post(agent, url, contentType, body);
      if (status !== 200 && status !== 204) {
        throw new Error(`${url}: ${status} ${text.slice(0, 500)}`);
      }
    }
  } finally {
    agent.destroy();
  }
}

/** Nobody answers: what was sent has to be asked elsewhere. */
export async function sendByTcp(file: BodyFile, port: number): Promise<void> {
  const socket = connect(port, '127.0.0.1');
  // One that breaks off between two bodies is told by the next.
  socket.on('error', () => {});
  try {
    await once(socket, 'connect');
    socket.resume();
    for await (const body of bodiesOf(file)) {
      // The system has it then, and it may be written over.
      await new Promise<void>((resolve, reject) => {
        socket.write(body, (error) => (error ? reject(error) : resolve()));
      });
    }
    socket.end();
    if (!socket.closed) await once(socket, 'close');
    if (socket.errored !== null) throw socket.errored;
  } finally {
    socket.destroy();
  }
}

/** One after the other; each holds until the next one is asked for. */
async function* bodiesOf({ path, bodyBytes }: BodyFile): AsyncGenerator<Buffer> {
  const room = Buffer.allocUnsafe(Math.max(...bodyBytes));
  await using file = await open(path);
  let at = 0;
  for (const bytes of bodyBytes) {
    const { bytesRead } = await file.read(room, 0, bytes, at);
    if (bytesRead !== bytes) throw new Error(`${path}: ${bytesRead} of ${bytes} bytes at ${at}`);
    yield room.subarray(0, bytes);
    at += bytes;
  }
}

function post(
  agent: Agent,
  url: string,
  contentType: string,
  body: Buffer,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': contentType, 'content-length': body.length };
    const sent = request(url, { method: 'POST', agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (part: string) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
