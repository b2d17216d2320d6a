/** Sharing of series as a listener has it: its server, its place among the others, and its end. */
import type { ClusterName } from '#cluster/kv/keys.ts';
import type { Kv } from '#cluster/kv/kv.ts';
import type { StatsdSharingConfig } from '#lib/config/config.ts';
import type { Env } from '#lib/env/env.ts';
import { serveGrpc } from '#lib/env/grpc.ts';
import { TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { Membership } from './membership.ts';
import { batchBytesMax } from './outgoing.ts';
import { leadMillisDefault } from './receivers.ts';
import { Sharing, type SharingMetrics, type SharingOptions } from './sharing.ts';
import { takePath } from './wire.ts';

const requestBytesMax: number = batchBytesMax + (1 << 20);
const stopGraceMillis = 1_000;
/** Others keep the series of one that has not been heard of for so long. */
const leaseSecondsDefault = 10;

export interface SharingSetup {
  readonly config: StatsdSharingConfig;
  readonly kv: Kv;
  readonly cluster: ClusterName;
  readonly env: Env;
  readonly log: Log;
  readonly metrics: SharingMetrics;
  readonly flushIntervalMillis: number;
  /** Other than usual, for tests. */
  readonly times?: { readonly leaseSeconds: number; readonly leadMillis: number };
}

/** A listener's part of it. */
export interface StartedSharing {
  readonly sharing: Sharing;
  /** Others will keep its series; nothing of them is taken any more. What it has for them is sent until the signal aborts. */
  leave(signal: AbortSignal): Promise<void>;
}

/**
 * @param of what of `SharingOptions` is the listener's
 * @throws {ListenError} when the address cannot be had; the signal's reason when it aborts before receivers are known
 */
export async function startSharing(
  setup: SharingSetup,
  of: Pick<SharingOptions, 'onChange' | 'onLines'>,
  signal: AbortSignal,
): Promise<StartedSharing> {
  const { config, kv, cluster, env, log, metrics, flushIntervalMillis, times } = setup;
  const { listenAddress, advertiseAddress } = config;
  await using open = new AsyncDisposableStack();
  let sharing: Sharing | null = null;
  const server = open.use(
    await serveGrpc({
      ...listenAddress,
      methods: [
        {
          kind: 'unary',
          path: takePath,
          handle: (request) => (sharing ?? notYet()).take(request),
        },
      ],
      requestBytesMax,
      stopGraceMillis,
    }),
  );
  const address = `${advertiseAddress.host}:${advertiseAddress.port || server.port}`;
  const membership = new Membership({
    kv,
    cluster,
    env,
    log,
    address,
    times: {
      leaseSeconds: times?.leaseSeconds ?? leaseSecondsDefault,
      leadMillis: times?.leadMillis ?? leadMillisDefault,
      intervalMillis: flushIntervalMillis,
    },
  });
  open.defer(() => membership.leave());
  const begun = new Sharing({ ...of, membership, address, env, metrics });
  await begun.begin(signal);
  sharing = begun;
  open.move();
  return {
    sharing: begun,
    async leave(until) {
      await membership.leave();
      begun.stopTaking();
      await server[Symbol.asyncDispose]();
      await begun.end(until);
    },
  };
}

function notYet(): never {
  throw new TsdbError('UNAVAILABLE', 'the coordinator starts');
}
