/** Messages written to a node process over gRPC, while their schema changes and the process is killed, and read again. */
import assert from 'node:assert/strict';
import { NodeClient } from '#cluster/node/client.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { type JsonValue, messageToJson } from '#engine/messages/json.ts';
import { mergedType } from '#engine/messages/merged.ts';
import { mixedSlices } from '#engine/store/read/mixed_slices.ts';
import { valueLayout } from '#engine/typed/typed_value.ts';
import { TsdbError } from '#lib/errors.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { decodeTags, encodeTags, tagValue } from '#lib/tags.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { call, createLocalDatabase, eventually, type NodeServer } from '../integration/process.ts';
import {
  messageName,
  protoName,
  schemaTexts,
  schemaTypes,
  telemetry,
  telemetryValue,
} from './messages_data.ts';

export const messagesNamespace = 'fleet';
const { signal } = new AbortController();
const intervalNanos = 10_000_000_000n;

export interface MessagesShape {
  readonly devices: number;
  readonly rowsPerDevice: number;
}

/** What was acknowledged: by device and row the version of the schema that it was written by, one more; 0 for nothing. */
export class MessagesLoad {
  readonly #server: NodeServer;
  readonly #shape: MessagesShape;
  readonly #startNanos: bigint;
  readonly #acknowledged: Uint8Array;
  readonly #builder = new BatchBuilder();
  #client: NodeClient;
  /** Of each version that is deployed, the number of its rows. */
  readonly layouts: number[] = [];
  retries = 0;

  constructor(server: NodeServer, shape: MessagesShape, nowMillis: number) {
    this.#server = server;
    this.#shape = shape;
    const nowNanos = BigInt(nowMillis) * 1_000_000n;
    const first = nowNanos - BigInt(shape.rowsPerDevice) * intervalNanos;
    this.#startNanos = (first / intervalNanos) * intervalNanos;
    this.#acknowledged = new Uint8Array(shape.devices * shape.rowsPerDevice);
    this.#client = this.#connect();
  }

  #connect(): NodeClient {
    return new NodeClient({ target: `127.0.0.1:${this.#server.ports.grpcCluster}` });
  }

  get range(): { readonly startNanos: bigint; readonly endNanos: bigint } {
    const rows = BigInt(this.#shape.rowsPerDevice);
    return { startNanos: this.#startNanos, endNanos: this.#startNanos + rows * intervalNanos };
  }

  /** A namespace with cold writes, and the first schema. */
  async create(): Promise<void> {
    await createLocalDatabase(this.#server, messagesNamespace, { coldWritesEnabled: true });
    await this.deploy();
  }

  /** The next version of the schema. */
  async deploy(): Promise<void> {
    const url = `${this.#server.url}/api/v1/services/tsdb/schema`;
    const body = {
      name: messagesNamespace,
      msgName: messageName,
      protoName,
      protoMap: { [protoName]: schemaTexts[this.layouts.length]! },
    };
    const answer = await call('POST', url, body);
    assert.equal(answer.status, 200, answer.text);
    const { json } = await call('GET', `${url}?name=${messagesNamespace}`);
    this.layouts.push(Number(json.versions.at(-1).number));
  }

  /** Rows [first, past) of all devices, `devicesAtOnce` devices a batch; sent again until they are acknowledged. */
  async write(first: number, past: number, devicesAtOnce = 1000): Promise<void> {
    const { devices } = this.#shape;
    for (let row = first; row < past; row++) {
      for (let from = 0; from < devices; from += devicesAtOnce) {
        await this.#send(row, from, Math.min(devices, from + devicesAtOnce));
      }
    }
  }

  async #send(row: number, fromDevice: number, pastDevice: number): Promise<void> {
    const version = this.layouts.length - 1;
    const count = pastDevice - fromDevice;
    const builder = this.#builder;
    builder.begin(1);
    const values: Uint8Array[] = [];
    let length = 0;
    const valueEnds = new Uint32Array(count);
    for (let device = fromDevice; device < pastDevice; device++) {
      builder.addSeries(tagsOf(device), idSchemeCode.quoted, new Uint8Array(0));
      const value = telemetryValue(device, row, version, this.layouts[version]!);
      values.push(value);
      length += value.length;
      valueEnds[device - fromDevice] = length;
    }
    const columns = {
      slots: Uint32Array.from({ length: count }, (_, i) => i),
      generations: new Uint32Array(count),
      timestamps: new BigInt64Array(count).fill(this.#startNanos + BigInt(row) * intervalNanos),
    };
    builder.setRows(
      0,
      columns.slots,
      columns.generations,
      columns.timestamps,
      1,
      new Float64Array(0),
    );
    builder.setTypedRows({
      ...columns,
      rowCount: count,
      timeUnitNanos: 1,
      startNanos: new BigInt64Array(count),
      valueEnds,
      valueBytes: new Uint8Array(Buffer.concat(values)),
    });
    const batch = builder.finish();
    for (;;) {
      try {
        const request = {
          namespace: messagesNamespace,
          placementVersion: 0,
          referenceEpoch: '',
          batch: batch.slice(),
        };
        const { outcomes } = await this.#client.write(request, AbortSignal.timeout(20_000));
        assert.deepEqual([...outcomes], []);
        break;
      } catch (error) {
        if (!(error instanceof TsdbError)) throw error;
        // It is being started again.
        this.retries += 1;
        this.#client[Symbol.dispose]();
        await delay(100);
        this.#client = this.#connect();
      }
    }
    for (let device = fromDevice; device < pastDevice; device++) {
      this.#acknowledged[device * this.#shape.rowsPerDevice + row] = version + 1;
    }
  }

  /** All rows, over gRPC. @returns messages that were read; throws when one is not there, or another one */
  async check(): Promise<number> {
    const { devices, rowsPerDevice } = this.#shape;
    const shown = mergedType(schemaTypes.slice(0, this.layouts.length));
    let read = 0;
    const devicesAtOnce = 200;
    for (let from = 0; from < devices; from += devicesAtOnce) {
      const names = Array.from(
        { length: Math.min(devicesAtOnce, devices - from) },
        (_, i) => from + i,
      );
      const { bundle } = await this.#client.fetch(
        {
          namespace: messagesNamespace,
          placementVersion: 0,
          query: {
            kind: 'regexp',
            field: 'device',
            regexp: names.map((each) => `d${each}`).join('|'),
          },
          shards: null,
          seriesLimit: 0,
          fetchData: true,
          ...this.range,
        },
        signal,
      );
      const { tagsData, tagsOffset, chunkData, chunkOffset } = bundle;
      for (let i = 0; i < bundle.seriesCount; i++) {
        const tags = decodeTags(tagsData.subarray(tagsOffset[i], tagsOffset[i + 1]));
        const device = Number(tagValue(tags, 'device')!.slice(1));
        const found = new Uint8Array(rowsPerDevice);
        const chunks = chunkData.subarray(chunkOffset[i], chunkOffset[i + 1]);
        for (const { timestampNanos, typed } of mixedSlices(chunks, this.range)) {
          for (const [at, nanos] of timestampNanos.entries()) {
            const row = Number((nanos - this.#startNanos) / intervalNanos);
            const value = typed[at]!;
            const version = this.layouts.indexOf(valueLayout(value, 0, value.length));
            const isRenamed = this.layouts.length > 2;
            assert.deepEqual(
              messageToJson(value, shown),
              expected(device, row, version, isRenamed),
            );
            found[row] = version + 1;
          }
        }
        const first = device * rowsPerDevice;
        assert.deepEqual(found, this.#acknowledged.slice(first, first + rowsPerDevice));
        read += rowsPerDevice;
      }
    }
    return read;
  }

  /** Kills the process and starts it again. */
  async kill(): Promise<void> {
    await this.#server.program.stop('SIGKILL');
    await this.#server.start();
    await eventually(
      'the node is ready',
      async () => (await fetch(`${this.#server.url}/ready`)).ok,
    );
  }

  [Symbol.dispose](): void {
    this.#client[Symbol.dispose]();
  }
}

/** As JSON shows it by the newest names: what is zero is left out. */
function expected(device: number, row: number, version: number, isRenamed: boolean): JsonValue {
  const { errors, errorCount, ...rest } = telemetry(device, row, version);
  const count = Number(errors ?? errorCount);
  const all: Record<string, JsonValue> = {
    ...rest,
    ...(isRenamed ? { errorCount: String(count) } : { errors: count }),
  };
  const zeros = ([, value]: [string, JsonValue]) =>
    value !== 0 && value !== '0' && value !== 'NORMAL' && value !== 'UNKNOWN';
  return Object.fromEntries(Object.entries(all).filter(zeros));
}

function tagsOf(device: number): Uint8Array {
  return encodeTags([
    { name: '__name__', value: 'telemetry' },
    { name: 'device', value: `d${device}` },
    { name: 'site', value: `s${device % 20}` },
  ]);
}
