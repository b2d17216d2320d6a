/**
 * Ports for servers that a test starts, and starts again on the same port. They are not from the
 * range out of which the system takes the local ports of connections: one of those could stand on
 * the port while its server is down. Each process begins elsewhere, so that tests side by side do
 * not choose alike.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Above what Kubernetes' own programs listen on, below Linux' ephemeral ports. */
const firstPort = 13_000;
const endPort = 30_000;
const portsOfProcess = 40;

let next = firstPort + ((process.pid * portsOfProcess) % (endPort - firstPort));

/** Ports that were free a moment ago, each another one. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  for (let tries = firstPort; ports.length < count; tries++) {
    if (tries === endPort) throw new Error(`no ${count} free ports from ${firstPort} on`);
    const port = next;
    next = next + 1 === endPort ? firstPort : next + 1;
    if (await isFree(port)) ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false;
    throw error;
  }
  server.close();
  await once(server, 'close');
  return true;
}
