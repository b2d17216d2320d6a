/** Which language a request to the endpoints of PromQL speaks. */
import { type ApiRequest, eitherHeader } from '../../http/http_api.ts';

/** As requests and answers name it. */
export const scriptEngineName = 'm3ql';

/** The parameter counts before the header. A name that is no engine's gets the default, as in M3, and so does `m3query`, M3's for PromQL. */
export function asksForM3ql(request: ApiRequest, parameters: URLSearchParams): boolean {
  return (parameters.get('engine') || eitherHeader(request, 'Engine')) === scriptEngineName;
}
