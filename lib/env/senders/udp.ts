/** A socket of UDP, over node:dgram. */
import { createSocket, type Socket } from 'node:dgram';
import { isIPv6 } from 'node:net';
import { ListenError } from '../listen_error.ts';

export interface UdpServerOptions {
  readonly host: string;
  /** 0 for any free one. */
  readonly port: number;
  /** What the system may keep of datagrams that we have not taken; it may give less. */
  readonly receiveBufferBytes: number;
  /** Takes a datagram, whose bytes are its own. */
  readonly onMessage: (message: Uint8Array) => void;
  readonly onError: (error: unknown) => void;
}

export interface UdpServer extends AsyncDisposable {
  readonly host: string;
  /** The port that is really open. */
  readonly port: number;
}

/** @throws {ListenError} when the address cannot be had */
export async function listenUdp(options: UdpServerOptions): Promise<UdpServer> {
  const { host, port, receiveBufferBytes, onMessage, onError } = options;
  const socket = createSocket({ type: isIPv6(host) ? 'udp6' : 'udp4' });
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.once('error', reject);
  socket.bind({ address: host, port }, resolve);
  try {
    await promise;
  } catch (error) {
    socket.close();
    throw new ListenError(host, port, error);
  }
  socket.off('error', reject);
  socket.on('error', onError);
  growBuffer(socket, receiveBufferBytes);
  socket.on('message', onMessage);
  return {
    host,
    port: socket.address().port,
    [Symbol.asyncDispose]: () =>
      new Promise((closed) => {
        socket.close(() => closed());
      }),
  };
}

/** A system that gives no more than it has is no mistake. */
function growBuffer(socket: Socket, bytes: number): void {
  try {
    socket.setRecvBufferSize(bytes);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ERR_SOCKET_BUFFER_SIZE'))
      throw error;
  }
}
