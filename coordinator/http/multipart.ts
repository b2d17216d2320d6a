/**
 * Forms as `multipart/form-data` (RFC 7578), as graphite-web sends them to other servers: each field is a part between lines of a
 * boundary, with its name in a header.
 */
import { badRequest } from '#lib/errors.ts';
import { parametersMax } from './limits.ts';

/** As RFC 2046 has it. */
const boundaryPattern = /;\s*boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))/i;
const namePattern = /^content-disposition:\s*form-data;.*?\bname="([^"\r\n]*)"/im;
const filePattern = /^content-disposition:.*\bfilename\*?=/im;

/**
 * @param contentType of the request
 * @throws {TsdbError} BAD_REQUEST when the body is no such form, has a file in it, or too many fields
 */
export function parametersOfMultipart(body: Uint8Array, contentType: string): URLSearchParams {
  const [, quoted, plain] = boundaryPattern.exec(contentType) ?? [];
  const boundary = quoted ?? plain;
  if (boundary === undefined) throw malformed('Content-Type has no boundary');
  // With a line end before the first one all parts are alike.
  const text = `\r\n${Buffer.from(body.buffer, body.byteOffset, body.length).toString('utf8')}`;
  const delimiter = `\r\n--${boundary}`;
  const parameters = new URLSearchParams();
  let count = 0;
  let at = text.indexOf(delimiter);
  for (;;) {
    if (at < 0) throw malformed('its end is missing');
    const start = at + delimiter.length;
    if (text.startsWith('--', start)) return parameters;
    at = text.indexOf(delimiter, start);
    const headersEnd = text.indexOf('\r\n\r\n', start);
    if (at < 0 || headersEnd < 0 || headersEnd + 4 > at) throw malformed('a part is cut off');
    if (++count > parametersMax) throw badRequest(`more than ${parametersMax} parameters`);
    const headers = text.slice(start, headersEnd);
    const name = namePattern.exec(headers)?.[1];
    if (name === undefined) throw malformed('a part has no name');
    if (filePattern.test(headers)) throw malformed('files are not taken');
    parameters.append(name, text.slice(headersEnd + 4, at));
  }
}

function malformed(reason: string): Error {
  return badRequest(`cannot read form: multipart/form-data: ${reason}`);
}
