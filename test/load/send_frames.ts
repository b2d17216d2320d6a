/** Sends remote write bodies, some at a time. */
import { Agent, request } from 'node:http';
import type { BackfillSource } from './backfill_data.ts';

/** Requests on their way at a time. */
const requestsAtOnce = 4;
/**
 * A request that is refused for a passing reason (429, 503) is sent again after this time, at most
 * so often.
 */
const retryMillis = 250;
const triesMax = 240;

export interface Sent {
  readonly seconds: number;
  readonly samples: number;
  readonly retries: number;
  readonly slowestMillis: number;
}

/** Sends all frames. @param atOnce one for receivers that take a series' samples in their order alone */
export async function send(
  url: string,
  source: BackfillSource,
  fromPart: number,
  progress: (samples: number) => void = () => {},
  atOnce: number = requestsAtOnce,
): Promise<Sent> {
  const agent = new Agent({ keepAlive: true, maxSockets: atOnce });
  const frames = source.frames(fromPart);
  const begin = performance.now();
  let [samples, retries, slowestMillis] = [0, 0, 0];
  const worker = async (): Promise<void> => {
    for (let next = frames.next(); next.done !== true; next = frames.next()) {
      const sentAt = performance.now();
      for (let tries = 1; ; tries += 1) {
        const { status, text } = await post(agent, url, next.value.body);
        if (status === 200 || status === 204) break;
        if (!(status === 429 || status === 503) || tries === triesMax) {
          throw new Error(`${url}: ${status} ${text.slice(0, 500)}`);
        }
        retries += 1;
        await new Promise((resolve) => setTimeout(resolve, retryMillis));
      }
      slowestMillis = Math.max(slowestMillis, performance.now() - sentAt);
      samples += next.value.samples;
      progress(samples);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  agent.destroy();
  return { seconds: (performance.now() - begin) / 1000, samples, retries, slowestMillis };
}

function post(agent: Agent, url: string, body: Buffer): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      'content-encoding': 'snappy',
      'content-type': 'application/x-protobuf',
      'content-length': body.length,
    };
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
