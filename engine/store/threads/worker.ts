/** The thread of thread.ts. */
import { parentPort, workerData } from 'node:worker_threads';
import { StoreReader } from '../reader.ts';
import type { StoreThreadReply, StoreThreadRequest } from './thread.ts';
import type { StoreWindow } from '../store.ts';

const reader = new StoreReader(workerData as StoreWindow);
const port = parentPort!;

port.on('message', ({ id, slots, generations, blockStartNanos }: StoreThreadRequest) => {
  const answer = reader.readBlock(slots, generations, blockStartNanos);
  const reply: StoreThreadReply = { id, ...answer };
  const moved = [answer.chunkData, answer.chunkOffset, answer.left].map(
    ({ buffer }) => buffer as ArrayBuffer,
  );
  port.postMessage(reply, moved);
});
