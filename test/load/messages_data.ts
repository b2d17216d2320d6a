/** Telemetry of devices as protobuf messages: what a row has is known by its device and its number alone. */
import { MessageEncoder } from '#engine/messages/canonical.ts';
import { type JsonValue, wireFromJson } from '#engine/messages/json.ts';
import { type MessageType, readSchema } from '#engine/messages/schema.ts';

const fields = `
  double cpu = 1; double load = 2; double temperature = 3; double voltage = 4; double humidity = 5; double signal = 6;
  int64 bytes_in = 7; int64 bytes_out = 8; int32 errors = 9; uint32 uptime_seconds = 10;
  State state = 11; Mode mode = 12; string firmware = 13; Position position = 14;
  enum State { UNKNOWN = 0; IDLE = 1; BUSY = 2; FAILED = 3; }
  enum Mode { NORMAL = 0; SAVING = 1; }`;

/** One after the other may be deployed: a field more, then a wider number, another name and one more within a message. */
export const schemaTexts: readonly string[] = [
  `${fields} message Position { double latitude = 1; double longitude = 2; }`,
  `${fields} optional double pressure = 15; message Position { double latitude = 1; double longitude = 2; }`,
  `${fields.replace('int32 errors', 'int64 error_count')} optional double pressure = 15;
   message Position { double latitude = 1; double longitude = 2; float altitude = 3; }`,
].map((body) => `syntax = "proto3"; package fleet; message Telemetry { ${body} }`);

export const messageName = 'fleet.Telemetry';
export const protoName = 'telemetry.proto';

export const schemaTypes: readonly MessageType[] = schemaTexts.map((text) =>
  readSchema({ [protoName]: text }, messageName),
);

/** A number in [0, 1) that only these tell. */
function noise(device: number, row: number, of: number): number {
  let hash = (device * 0x9e3779b1) ^ (row * 0x85ebca6b) ^ (of * 0xc2b2ae35);
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  hash = Math.imul(hash ^ (hash >>> 12), 0x297a2d39);
  return ((hash ^ (hash >>> 15)) >>> 0) / 2 ** 32;
}

const rounded = (value: number, digits: number): number => Number(value.toFixed(digits));

/**
 * Measurements as devices give them: with a few decimals, some of which seldom change, counters, states that stay a while.
 * @param version index of the schema that it is written by
 */
export function telemetry(device: number, row: number, version: number): Record<string, JsonValue> {
  const wave = Math.sin(row / 60 + device);
  const busy = noise(device, Math.floor(row / 20), 1) > 0.7;
  const message: Record<string, JsonValue> = {
    cpu: rounded(20 + 15 * wave + 5 * noise(device, row, 2), 1),
    load: rounded(1 + wave / 2 + noise(device, row, 3) / 4, 2),
    temperature: rounded(21 + 3 * wave + noise(device, Math.floor(row / 5), 4) / 5, 1),
    voltage: rounded(230 + 2 * noise(device, row, 5), 2),
    humidity: rounded(45 + 5 * noise(device, Math.floor(row / 30), 6), 0),
    signal: rounded(-60 - 10 * noise(device, row, 7), 0),
    bytesIn: String(1_000 * row + Math.floor(900 * noise(device, row, 8))),
    bytesOut: String(400 * row + Math.floor(300 * noise(device, row, 9))),
    [version < 2 ? 'errors' : 'errorCount']:
      version < 2 ? Math.floor(row / 97) : String(Math.floor(row / 97)),
    uptimeSeconds: 10 * row + 3600 * device,
    state: busy ? 'BUSY' : 'IDLE',
    mode: noise(device, Math.floor(row / 200), 10) > 0.5 ? 'SAVING' : 'NORMAL',
    firmware: `2.${device % 7}.${Math.floor(row / 700)}`,
    position: {
      latitude: rounded(48 + device / 100, 4),
      longitude: rounded(11 + device / 100, 4),
      ...(version < 2 ? {} : { altitude: 500.5 }),
    },
  };
  if (version > 0) message['pressure'] = rounded(1013 + 2 * wave, 1);
  return message;
}

const encoder = new MessageEncoder();

/** The same as a typed value. @param layout number of the schema */
export function telemetryValue(
  device: number,
  row: number,
  version: number,
  layout: number,
): Uint8Array {
  const type = schemaTypes[version]!;
  return encoder.encode(wireFromJson(telemetry(device, row, version), type), type, layout);
}
