/** Files of m3ctl: what they ask of a coordinator. */
import { badRequest, shownText } from '#lib/errors.ts';

export interface FileRequest {
  readonly method: 'POST';
  readonly path: string;
  readonly body: unknown;
  /** For errors. */
  readonly what: string;
}

/** By what a file calls it; the rest of the path below the placement, null for a database. */
const operations: Readonly<
  Record<string, { readonly rest: string | null; readonly what: string }>
> = {
  create: { rest: null, what: 'create the database' },
  init: { rest: '/init', what: 'make the placement' },
  newNode: { rest: '', what: 'add instances' },
  replaceNode: { rest: '/replace', what: 'replace instances' },
};

const services: Readonly<Record<string, string>> = {
  tsdb: 'tsdb',
  m3db: 'tsdb',
  aggregator: 'aggregator',
  m3aggregator: 'aggregator',
};

/** @throws {TsdbError} BAD_REQUEST */
export function requestOfFile(file: Readonly<Record<string, unknown>>): FileRequest {
  const { operation, service = 'tsdb', request, ...others } = file;
  const [other] = Object.keys(others);
  if (other !== undefined) throw badRequest(`unknown key: ${shownText(other)}`);
  const known = Object.hasOwn(operations, String(operation)) ? operations[String(operation)] : null;
  if (known === null || known === undefined) {
    const names = Object.keys(operations).join(', ');
    throw badRequest(`operation: none of ${names}: ${shownText(String(operation))}`);
  }
  const named = Object.hasOwn(services, String(service)) ? services[String(service)] : undefined;
  if (named === undefined) {
    throw badRequest(`service: neither tsdb nor aggregator: ${shownText(String(service))}`);
  }
  if (request === undefined || request === null) throw badRequest('request: missing');
  const path =
    known.rest === null
      ? '/api/v1/database/create'
      : `/api/v1/services/${named}/placement${known.rest}`;
  return { method: 'POST', path, body: request, what: known.what };
}
