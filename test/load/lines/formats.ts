/** Formats in which the samples are sent: what a body is, how it comes to a server, and what a field's series are called there. */
import { BytesWriter } from '#engine/messages/bytes_writer.ts';
import { fields, type Host, type HostScrape } from './data.ts';
import { type Send, sendByHttp, sendByTcp } from './send.ts';

export const formatNames = ['influx', 'carbon', 'otlp', 'prometheus'] as const;
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

/** A metric a field, with a point of each host's scrape. */
const otlp: Format = {
  bodyOf: (scrapes) => {
    const out = new BytesWriter();
    message(out, 1, () =>
      message(out, 2, () => {
        for (const [at, field] of fields.entries()) {
          message(out, 2, () => {
            text(out, 1, `${measurement}_${field}`);
            message(out, 5, () => {
              for (const { host, timeMillis, values } of scrapes) {
                message(out, 1, () => {
                  out.varint((3 << 3) | 1);
                  const nanos = BigInt(timeMillis) * 1_000_000n;
                  out.fixed64(Number(nanos & 0xffff_ffffn), Number(nanos >> 32n));
                  out.varint((6 << 3) | 1);
                  out.fixed64(values[at]!, 0);
                  const attributes = otlpAttributes(host);
                  out.copy(attributes, 0, attributes.length);
                });
              }
            });
          });
        }
      }),
    );
    return out.finish();
  },
  send: (file, { otlpPath, url }) =>
    sendByHttp(file, `${url}${otlpPath}`, 'application/x-protobuf'),
  selectorOf: influx.selectorOf,
};

const prometheus: Format = {
  bodyOf: (scrapes) =>
    Buffer.from(
      scrapes
        .map(({ host, timeMillis, values }) => {
          const labels = prometheusLabels(host);
          const lines = fields.map(
            (field, at) => `${measurement}_${field}${labels} ${values[at]} ${timeMillis}\n`,
          );
          return lines.join('');
        })
        .join(''),
    ),
  send: (file, { url }) => sendByHttp(file, `${url}/api/v1/import/prometheus`),
  selectorOf: influx.selectorOf,
};

export const formats: Readonly<Record<FormatName, Format>> = { influx, carbon, otlp, prometheus };

const measurement = 'cpu';
const tagCount = 10;

const influxSeries = rememberedOf(({ tags }) =>
  [measurement, ...tags.map(([name, value]) => `${name}=${value}`)].join(','),
);
const prometheusLabels = rememberedOf(
  ({ tags }) => `{${tags.map(([name, value]) => `${name}="${value}"`).join()}}`,
);
const otlpAttributes = rememberedOf(({ tags }) => {
  const out = new BytesWriter();
  for (const [name, value] of tags) {
    message(out, 7, () => {
      text(out, 1, name);
      message(out, 2, () => text(out, 1, value));
    });
  }
  return out.finish();
});
const carbonPath = rememberedOf(({ tags }) =>
  [measurement, ...tags.map(([, value]) => value.replaceAll('.', '_'))].join('.'),
);

function message(out: BytesWriter, number: number, write: () => void): void {
  out.varint((number << 3) | 2);
  const from = out.beginLength();
  write();
  out.endLength(from);
}

function text(out: BytesWriter, number: number, value: string): void {
  message(out, number, () => out.copy(Buffer.from(value), 0, Buffer.byteLength(value)));
}

function rememberedOf<Made>(make: (host: Host) => Made): (host: Host) => Made {
  const known = new WeakMap<Host, Made>();
  return (host) => {
    let made = known.get(host);
    if (made === undefined) known.set(host, (made = make(host)));
    return made;
  };
}
