/** The aggregators of a placement as `PartsService` over gRPC, and the connections to them. */
import { connectGrpc, type GrpcClient } from '#lib/env/grpc.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Outputs } from '../../aggregation_rules/rollups/outputs.ts';
import type { Instance, Placement } from '../../placement/placement.ts';
import type { OutputParts, PartsService } from './service.ts';
import { decodePartsPage, encodePartsRequest, partsPageBytesMax, partsPath } from './wire.ts';

export class PartsPeers implements Disposable {
  /** By endpoint; they connect when they are first used, and again. */
  readonly #clients = new Map<string, GrpcClient>();

  peerOf({ endpoint }: Instance, outputs: Outputs): PartsService {
    let client = this.#clients.get(endpoint);
    if (client === undefined) {
      client = connectGrpc({ target: endpoint, answerBytesMax: partsPageBytesMax });
      this.#clients.set(endpoint, client);
    }
    const to = client;
    return { parts: (request, signal) => ask(to, encodePartsRequest(request), outputs, signal) };
  }

  /** Closes the connections to those that a placement does not have. */
  retain({ instances }: Placement): void {
    const endpoints = new Set(instances.map(({ endpoint }) => endpoint));
    for (const [endpoint, client] of this.#clients) {
      if (endpoints.has(endpoint)) continue;
      client[Symbol.dispose]();
      this.#clients.delete(endpoint);
    }
  }

  [Symbol.dispose](): void {
    for (const client of this.#clients.values()) client[Symbol.dispose]();
  }
}

async function ask(
  client: GrpcClient,
  request: Uint8Array,
  outputs: Outputs,
  signal: AbortSignal,
): Promise<readonly OutputParts[]> {
  const call = client.stream(partsPath, signal);
  // A call that fails says so to its reader too, with the server's reason.
  call.send(request).catch(() => {});
  call.end();
  const all: OutputParts[] = [];
  let isWhole = false;
  for await (const bytes of call.messages) {
    const page = decodePartsPage(bytes, outputs);
    all.push(...page.outputs);
    isWhole = page.isLast;
  }
  if (isWhole) return all;
  throw new TsdbError('UNAVAILABLE', `${partsPath}: the answer ended before its last page`);
}
