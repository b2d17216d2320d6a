/**
 * What keeps web pages from using a server through the browser of somebody who can reach it: a page
 * may send requests to any address, `localhost` too, and it may point a name of its own there.
 * Nothing has passwords, so this is all that stands between the two.
 *
 *     403   a browser says that the request is of a page of another origin, and it is one that
 *           changes something or costs much (the rule of Go's http.CrossOriginProtection)
 *     421   `Host` is a name that is not this server's
 *
 * Who is no browser sends neither `Sec-Fetch-Site` nor `Origin`, and is served as ever.
 */
import type { IncomingMessage } from 'node:http';
import { isIP } from 'node:net';

export interface GuardOptions {
  /**
   * Names by which the server may be called, in any case: `tsdb`, `*.example.com` for all below,
   * `*` for any; addresses and localhost always may be. Null: any name, except on connections to
   * a loopback address.
   */
  readonly allowedHosts: readonly string[] | null;
  /** Whether a GET of that path, without query and last slashes, changes something or costs much. */
  readonly isCostly: (path: string) => boolean;
}

export interface Refusal {
  readonly status: 403 | 421;
  /** Why, and what to do, for people. */
  readonly reason: string;
}

export class BrowserGuard {
  readonly #isCostly: GuardOptions['isCostly'];
  readonly #onLoopbackOnly: boolean;
  readonly #names: ReadonlySet<string>;
  /** `.example.com`, or '' for any. */
  readonly #suffixes: readonly string[];
  /** Most requests come with the same one. */
  #lastAllowed = '';

  constructor({ allowedHosts, isCostly }: GuardOptions) {
    this.#isCostly = isCostly;
    this.#onLoopbackOnly = allowedHosts === null;
    const names = (allowedHosts ?? []).map(canonical);
    this.#names = new Set(['localhost', ...names]);
    const below = names.filter((name) => name.startsWith('*'));
    this.#suffixes = ['.localhost', ...below.map((name) => name.slice(1))];
  }

  /** Null: it may be served. */
  refusalOf(request: IncomingMessage): Refusal | null {
    const { host } = request.headers;
    if (!this.#isAllowed(host, request)) return wrongHost(host!);
    const page = pageOfAnotherOrigin(request);
    if (page === null) return null;
    const isRead = readMethods.has(request.method ?? '');
    if (isRead && !this.#isCostly(pathOf(request))) return null;
    return otherOrigin(request.method!, page);
  }

  /** A browser always sends one. */
  #isAllowed(host: string | undefined, request: IncomingMessage): boolean {
    if (host === undefined || host === '' || host === this.#lastAllowed) return true;
    if (this.#onLoopbackOnly && !isLoopback(request.socket.localAddress)) return true;
    const name = nameOf(host);
    const isAllowed =
      name !== null &&
      (isIP(name) !== 0 ||
        this.#names.has(name) ||
        this.#suffixes.some((suffix) => name.endsWith(suffix)));
    if (isAllowed) this.#lastAllowed = host;
    return isAllowed;
  }
}

const readMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/** No pattern: those take a time that grows with the square of the slashes. */
function pathOf({ url = '/' }: IncomingMessage): string {
  const query = url.indexOf('?');
  let length = query < 0 ? url.length : query;
  while (url[length - 1] === '/') length -= 1;
  return url.slice(0, length);
}

/** @returns what says so, or null */
function pageOfAnotherOrigin({ headers }: IncomingMessage): string | null {
  const site = headers['sec-fetch-site'];
  if (site !== undefined && site !== '') {
    return site === 'same-origin' || site === 'none' ? null : `Sec-Fetch-Site: ${String(site)}`;
  }
  const { origin, host } = headers;
  if (origin === undefined || origin === '' || isSameHost(origin, host ?? '')) return null;
  return `Origin: ${origin}`;
}

/** Both as a URL has them: in lower case, and without a port that its scheme has anyway. */
function isSameHost(origin: string, host: string): boolean {
  const theirs = URL.parse(origin);
  return theirs !== null && theirs.host === URL.parse(`${theirs.protocol}//${host}`)?.host;
}

/** The name or address in a `Host`, in lower case; null when it is none. */
function nameOf(host: string): string | null {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^\s:@/[\]]+))(?::\d*)?$/i.exec(host);
  if (match === null) return null;
  return canonical(match[1] ?? match[2]!);
}

const canonical = (name: string): string => name.toLowerCase().replace(/\.$/, '');

const isLoopback = (address: string | undefined): boolean =>
  address === undefined || address === '::1' || /^(?:::ffff:)?127\./i.test(address);

function wrongHost(host: string): Refusal {
  const reason =
    `Host is no name of this server: ${JSON.stringify(host)}. ` +
    'Use an IP address or localhost, or add the name to the setting allowedHosts ' +
    'of coordinator: (7201, 7203) or db: (9002 to 9005), docs/CONFIGURATION.md';
  return { status: 421, reason };
}

function otherOrigin(method: string, page: string): Refusal {
  const reason =
    `${method} requests of a web page of another origin are refused here (${page}). ` +
    'Use curl or another program, a page of this address, or a proxy that passes Host on';
  return { status: 403, reason };
}
