/** Formats in which the samples are sent: what a body is, how it comes to a server, and what a field's series are called there. */
import { fields, type Host, type HostScrape } from './data.ts';
import { type Send, sendByHttp, sendByTcp } from './send.ts';

export const formatNames = ['influx', 'carbon'] as const;
export type FormatName = (typeof formatNames)[number];

export interface Format {
  readonly bodyOf: (scrapes: readonly HostScrape[]) => Uint8Array;
  readonly send: Send;
  /** Selectors of a field's series of all hosts. */
  readonly selectorOf: (field: string) => { readonly tsdb: string; readonly victoria: string };
}

const influx: Format = {
  bodyOf: (scrapes) =>
    Buffer.from(
      scrapes
        .map(({ host, timeMillis, values }) => {
          const ofFields = fields.map((field, at) => `${field}=${values[at]}i`);
          return `${influxSeries(host)} ${ofFields.join(',')} ${timeMillis}000000\n`;
        })
        .join(''),
    ),
  send: (file, { url }) => sendByHttp(file, `${url}/write?precision=ns`),
  selectorOf: (field) => {
    const selector = `{__name__="${measurement}_${field}"}`;
    return { tsdb: selector, victoria: selector };
  },
};

const carbon: Format = {
  bodyOf: (scrapes) =>
    Buffer.from(
      scrapes
        .map(({ host, timeMillis, values }) => {
          const path = carbonPath(host);
          const seconds = timeMillis / 1_000;
          return fields.map((field, at) => `${path}.${field} ${values[at]} ${seconds}\n`).join('');
        })
        .join(''),
    ),
  send: (file, { carbonPort }) => sendByTcp(file, carbonPort),
  selectorOf: (field) => ({
    tsdb: `{__g0__="${measurement}",__g${tagCount + 1}__="${field}"}`,
    victoria: `{__graphite__="${[measurement, ...Array(tagCount).fill('*'), field].join('.')}"}`,
  }),
};

export const formats: Readonly<Record<FormatName, Format>> = { influx, carbon };

const measurement = 'cpu';
const tagCount = 10;

const influxSeries = rememberedOf(({ tags }) =>
  [measurement, ...tags.map(([name, value]) => `${name}=${value}`)].join(','),
);
const carbonPath = rememberedOf(({ tags }) =>
  [measurement, ...tags.map(([, value]) => value.replaceAll('.', '_'))].join('.'),
);

function rememberedOf(make: (host: Host) => string): (host: Host) => string {
  const known = new WeakMap<Host, string>();
  return (host) => {
    let text = known.get(host);
    if (text === undefined) known.set(host, (text = make(host)));
    return text;
  };
}
