/** Serves the metrics of a process at a listener of their own. */
import { type HttpServer, httpLimitsDefault, listenHttp } from '../env/http.ts';
import type { Log } from '../log.ts';
import type { Metrics } from '../metrics.ts';

export interface MetricsServerOptions {
  readonly address: { readonly host: string; readonly port: number };
  readonly path: string;
  readonly metrics: Metrics;
  readonly log: Log;
  /** As of `GuardOptions` in lib/env. */
  readonly allowedHosts: readonly string[] | null;
}

const connectionsMax = 100;

/** @throws {ListenError} when the address cannot be used */
export function serveMetrics(options: MetricsServerOptions): Promise<HttpServer> {
  const { address, path: metricsPath, metrics, log, allowedHosts } = options;
  return listenHttp({
    ...address,
    limits: { ...httpLimitsDefault, connectionsMax },
    handler: async (request, response) => {
      const path = (request.url ?? '/').split('?')[0];
      if (path !== metricsPath) {
        response.writeHead(404, { 'Content-Type': 'text/plain; charset=utf-8' });
        response.end(`metrics are at ${metricsPath}\n`);
        return;
      }
      if (request.method !== 'GET' && request.method !== 'HEAD') {
        response.writeHead(405, { Allow: 'GET, HEAD' });
        response.end();
        return;
      }
      const text = await metrics.text();
      response.writeHead(200, { 'Content-Type': metrics.contentType });
      response.end(text);
    },
    onError: (error) => log.error({ err: error }, 'metrics could not be served'),
    allowedHosts,
  });
}
