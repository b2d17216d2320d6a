/** What an aggregator says of itself on 6001, in the shapes of the reference system: /health, /status, /resign; and /ready. */
import { type HttpServer, httpLimitsDefault, listenHttp } from '#lib/env/http.ts';
import type { Log } from '#lib/log.ts';

export interface StatusOptions {
  readonly address: { readonly host: string; readonly port: number };
  /** As of `GuardOptions` in lib/env. */
  readonly allowedHosts: readonly string[] | null;
  readonly log: Log;
  readonly status: () => {
    /** This process makes the rollups of its shard set. */
    readonly leads: boolean;
    /** It knows enough for that. */
    readonly canLead: boolean;
  };
  /** What it goes by has been read. */
  readonly isReady: () => boolean;
  /** Lets the other one of the shard set lead. */
  readonly resign: () => Promise<void>;
}

const connectionsMax = 1_000;

interface Answer {
  readonly code: number;
  readonly body: object;
  readonly allow?: string;
}

/** @throws {ListenError} when the address cannot be used */
export function serveStatus(options: StatusOptions): Promise<HttpServer> {
  const { address, allowedHosts, log } = options;
  return listenHttp({
    ...address,
    limits: { ...httpLimitsDefault, connectionsMax },
    handler: async (request, response) => {
      const path = (request.url ?? '/').split('?')[0]!;
      const { code, body, allow } = await answerOf(options, request.method ?? 'GET', path);
      response.writeHead(code, {
        'Content-Type': 'application/json',
        ...(allow === undefined ? {} : { Allow: allow }),
      });
      response.end(`${JSON.stringify(body)}\n`);
    },
    onError: (error) => log.error({ err: error }, 'a request of the status could not be answered'),
    allowedHosts,
  });
}

async function answerOf(options: StatusOptions, method: string, path: string): Promise<Answer> {
  const isGet = method === 'GET' || method === 'HEAD';
  switch (path) {
    case '/health':
      return isGet ? { code: 200, body: { state: 'OK' } } : refused(method, 'GET, HEAD');
    case '/ready':
      if (!isGet) return refused(method, 'GET, HEAD');
      return options.isReady()
        ? { code: 200, body: { state: 'OK' } }
        : { code: 503, body: { state: 'Error', error: 'the key-value store is not read yet' } };
    case '/status': {
      if (!isGet) return refused(method, 'GET, HEAD');
      const { leads, canLead } = options.status();
      const flushStatus = { electionState: leads ? 'leader' : 'follower', canLead };
      return { code: 200, body: { status: { flushStatus } } };
    }
    case '/resign':
      if (method !== 'POST') return refused(method, 'POST');
      await options.resign();
      return { code: 200, body: { state: 'OK' } };
    default:
      return {
        code: 404,
        body: {
          state: 'Error',
          error: `no such path: ${path}: GET /health, GET /ready, GET /status, POST /resign`,
        },
      };
  }
}

function refused(method: string, allow: string): Answer {
  return { code: 405, body: { state: 'Error', error: `method ${method}: use ${allow}` }, allow };
}
