/** Rows that would make honest ones disappear, or be found under the wrong tags. */
import assert from 'node:assert/strict';
import { nodePaths, writeRequestWire } from '#cluster/node/wire.ts';
import { BatchBuilder } from '#engine/batch/batch.ts';
import { grpcStatus } from '#lib/env/grpc.ts';
import { idOfTags } from '#lib/series_id/from_tags.ts';
import { idSchemeCode } from '#lib/series_id/scheme.ts';
import { encodeTags, type Tags } from '#lib/tags.ts';
import { SeededRandom } from '../seeded_random.ts';
import { Answers, type Attack, keepDoing, Span } from './attack.ts';
import { GrpcConnection } from './grpc.ts';
import { ask, jsonWritePath, remoteWritePath } from './http.ts';
import { honest } from './probe.ts';
import { bytesField, doubleField, grpcMessage, numberField, snappyLiterals } from './protobuf.ts';
import { marker } from './victim.ts';

const schemes = ['quoted', 'prepend_meta', 'legacy'] as const;

function honestTags(random: SeededRandom): Tags {
  const [name, tag, count] = random.pick([
    [marker.name, 'part', marker.seriesCount],
    [honest.name, 'row', honest.seriesCount],
    // Of series that nobody has written yet.
    ['later', 'k', 1000],
  ] as const);
  return [
    { name: '__name__', value: name },
    { name: tag, value: String(random.below(count)) },
  ];
}

const squatting: Attack = {
  name: 'IDs of others',
  subject: 'wrong answers',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    await keepDoing(new Span(seconds), 2, async () => {
      const body = {
        namespace: 'default',
        id: idOfTags(honestTags(random), random.pick(schemes)),
        tags: [{ name: '__name__', value: 'squatter' }],
        datapoint: { timestamp: Math.floor(Date.now() / 1000), value: 1 },
      };
      const port = random.pick([ports.httpNode, ports.httpCluster]);
      const { status, text } = await ask(port, '/writetagged', { body: JSON.stringify(body) });
      assert.ok(status === 400 || status === 429 || status === 0, `${body.id}: ${status} ${text}`);
      answers.note(status);
    });
    return answers;
  },
};

/** A row for every sample of the marker, with another value and a version from far ahead. */
function batchFromAhead(version: number): Uint8Array {
  const builder = new BatchBuilder();
  builder.begin(version);
  const tags = encodeTags([
    { name: '__name__', value: marker.name },
    { name: 'part', value: '3' },
  ]);
  builder.addSeries(tags, idSchemeCode.quoted, new Uint8Array(0));
  const second = Math.floor(Date.now() / 1000);
  const rows = 600;
  builder.setRows(
    rows,
    new Uint32Array(rows),
    new Uint32Array(rows),
    BigInt64Array.from({ length: rows }, (_, i) => BigInt(second - i) * 1_000_000_000n),
    1_000_000_000,
    new Float64Array(rows).fill(-1),
  );
  return builder.finish();
}

const versions: Attack = {
  name: 'versions from far ahead',
  subject: 'wrong answers',
  async run({ ports }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const connection = new GrpcConnection(ports.grpc);
    const refused = [grpcStatus.failedPrecondition, grpcStatus.resourceExhausted];
    await keepDoing(new Span(seconds), 1, async () => {
      const version = random.pick([2 ** 53 - 1, 2 ** 53 - 2, 2 ** 52]);
      const message = writeRequestWire.encode({
        namespace: 'default',
        placementVersion: 1,
        referenceEpoch: '',
        batch: batchFromAhead(version),
      });
      const outcome = await connection.call(nodePaths.write, grpcMessage(message));
      const isRefused = refused.some((status) => outcome === `status ${status}`);
      assert.ok(isRefused || outcome.endsWith('ended'), `version ${version}: ${outcome}`);
      answers.note(outcome);
    });
    connection.leave();
    return answers;
  },
};

/** Bodies that two readers could read differently. */
function ambiguousJson(): readonly (string | Uint8Array)[] {
  const seconds = Date.now() / 1000;
  const row = (tags: string, rest = `"timestamp":${seconds},"value":1`): string =>
    `{"tags":${tags},${rest}}`;
  return [
    row('{"__name__":"two","a":"1","a":"2"}'),
    row('{"__name__":"two"}', `"timestamp":1,"timestamp":${seconds},"value":1`),
    row('{"__name__":"half","v":"\\ud800x"}'),
    row('{"__proto__":"x","a":"b"}'),
    `{"__proto__":{"tags":{"a":"b"}},${row('{"__name__":"odd"}').slice(1)}`,
    row('{"__name__":"odd"}', `"timestamp":${seconds},"value":1e400`),
    row('{"__name__":"odd"}', `"timestamp":${seconds},"value":"NaN"`),
    row('{"__name__":"odd"}', '"timestamp":1e400,"value":1'),
    row('{"__name__":"odd"}', `"timestamp":${Date.now()},"value":1`),
    Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d),
    Buffer.from(row('{"__name__":"wide"}'), 'utf16le'),
  ];
}

function ambiguousRemoteWrites(): readonly Uint8Array[] {
  const sample = bytesField(2, Buffer.concat([doubleField(1, 1), numberField(2, Date.now())]));
  const label = (name: string | Uint8Array, value: string | Uint8Array): Buffer =>
    bytesField(1, Buffer.concat([bytesField(1, name), bytesField(2, value)]));
  const series = (...labels: Buffer[]): Buffer => bytesField(1, Buffer.concat([...labels, sample]));
  const name = label('__name__', 'odd');
  return [
    series(name, label('a', 'b'), label('a', 'c')),
    series(name, label('a', Uint8Array.of(0xff, 0xfe, 0xc3, 0x28))),
    series(name, label(Uint8Array.of(0xc0, 0x80), 'b')),
    series(name, label('a', 'x'.repeat(65_600))),
    series(name, label('__reserved', 'b')),
    Buffer.concat([Buffer.from([0x0a]), Buffer.alloc(9, 255), Buffer.from([1, 1, 1])]),
    Buffer.alloc(100_000, 0x0b),
    Buffer.from([2, 0]),
  ];
}

const ambiguous: Attack = {
  name: 'rows that can be read in two ways',
  subject: 'wrong answers',
  async run({ ports: { coordinator } }, seed, seconds) {
    const random = new SeededRandom(seed);
    const answers = new Answers();
    const headers = { 'content-encoding': 'snappy', 'content-type': 'application/x-protobuf' };
    await keepDoing(new Span(seconds), 2, async (round) => {
      const isJson = round % 2 === 0;
      const body = random.pick<string | Uint8Array>(
        isJson ? ambiguousJson() : ambiguousRemoteWrites().map(snappyLiterals),
      );
      const path = isJson ? jsonWritePath : remoteWritePath;
      const { status, text } = await ask(coordinator, path, isJson ? { body } : { body, headers });
      const shown = Buffer.from(body as Uint8Array).toString('latin1', 0, 100);
      assert.ok(
        (status === 0 || status >= 400) && status !== 500,
        `${shown} is answered ${status} ${text}`,
      );
      answers.note(status);
    });
    return answers;
  },
};

export const wrongAnswerAttacks: readonly Attack[] = [squatting, versions, ambiguous];
