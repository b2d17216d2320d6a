/** The thread of aside.ts: does one job after the other. */
import { parentPort } from 'node:worker_threads';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { doJob } from './jobs.ts';
import type { AsideReply, AsideRequest } from './aside.ts';

parentPort!.on('message', ({ id, job }: AsideRequest) => {
  let reply: AsideReply;
  try {
    reply = { id, answer: doJob(job), error: null };
  } catch (error) {
    const code = error instanceof TsdbError ? error.code : 'INTERNAL';
    reply = { id, answer: null, error: { code, message: messageOf(error) } };
  }
  parentPort!.postMessage(reply);
});
