/**
 * What the operators of a run have done, from their logs and the API server's audit log, read as
 * they are written: the log of a pod goes with the pod.
 */
import { closeSync, globSync, openSync, readSync } from 'node:fs';
import { join } from 'node:path';
import { home } from './kube.ts';

const pollMillis = 250;
const readBytesMax = 4 * 1024 * 1024;

/** A record of an operator's log. */
export interface LogRecord {
  readonly atMillis: number;
  readonly pod: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, any>>;
}

/** A write of an operator that reached the API server. */
export interface Write {
  readonly atMillis: number;
  readonly verb: string;
  /** `resource/name`, with the subresource. */
  readonly object: string;
  readonly pod: string;
  readonly status: number;
}

const actionKinds =
  /^(apply|delete|scale-set|evict-pod|replace-pod|expand-claim|(etcd|placement|namespace)-[a-z-]+)$/;

export class Journal {
  readonly records: LogRecord[] = [];
  readonly writes: Write[] = [];
  readonly #offsets = new Map<string, number>();
  readonly #rests = new Map<string, string>();
  readonly #timer: NodeJS.Timeout;

  constructor() {
    this.#timer = setInterval(() => this.read(), pollMillis);
    this.#timer.unref();
    this.read();
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /** Everything that has been written until now. */
  read(): void {
    for (const path of globSync(join(home, 'node*/logs/*/operator/*.log'))) {
      const pod = path.split('_')[1]!;
      for (const line of this.#newLines(path)) this.#noteRecord(pod, line);
    }
    for (const line of this.#newLines(join(home, 'log/audit.log'))) this.#noteWrite(line);
  }

  #newLines(path: string): string[] {
    let file: number;
    try {
      file = openSync(path, 'r');
    } catch {
      return [];
    }
    try {
      let text = this.#rests.get(path) ?? '';
      let offset = this.#offsets.get(path) ?? 0;
      const buffer = Buffer.alloc(readBytesMax);
      for (;;) {
        const length = readSync(file, buffer, 0, buffer.length, offset);
        if (length === 0) break;
        offset += length;
        text += buffer.toString('utf8', 0, length);
      }
      this.#offsets.set(path, offset);
      const lines = text.split('\n');
      this.#rests.set(path, lines.pop()!);
      return lines;
    } finally {
      closeSync(file);
    }
  }

  #noteRecord(pod: string, line: string): void {
    const start = line.indexOf('{');
    try {
      const { time, msg, ...fields } = JSON.parse(line.slice(start)) as Record<string, any>;
      const atMillis = Date.parse(String(time));
      this.records.push({ atMillis, pod, message: String(msg), fields });
    } catch {
      // A stack trace of Node, not of our log.
      const atMillis = Date.parse(line.slice(0, 30));
      this.records.push({ atMillis, pod, message: line, fields: {} });
    }
  }

  #noteWrite(line: string): void {
    const event = JSON.parse(line);
    const { user, verb, objectRef = {}, responseStatus = {}, stageTimestamp } = event;
    if (!String(user.username).endsWith('tsdb-operator')) return;
    const { resource, name = '', subresource } = objectRef;
    this.writes.push({
      atMillis: Date.parse(stageTimestamp),
      verb,
      object: `${resource}/${name}${subresource === undefined ? '' : `/${subresource}`}`,
      pod: user.extra?.['authentication.kubernetes.io/pod-name']?.[0] ?? '',
      status: responseStatus.code ?? 0,
    });
  }

  /** Kinds of the actions that were begun since then, with what they were done to. */
  actions(sinceMillis: number): { kind: string; pod: string; fields: Record<string, any> }[] {
    this.read();
    return this.records
      .filter(({ atMillis, message }) => atMillis >= sinceMillis && actionKinds.test(message))
      .map(({ message, pod, fields }) => ({ kind: message, pod, fields }));
  }

  /** Without renewals of the lease. */
  writesSince(sinceMillis: number): Write[] {
    this.read();
    return this.writes.filter(
      ({ atMillis, object }) => atMillis >= sinceMillis && !object.startsWith('leases/'),
    );
  }

  /** Records whose message or error says this. */
  saying(pattern: RegExp, sinceMillis: number): LogRecord[] {
    this.read();
    return this.records.filter(
      ({ atMillis, message, fields }) =>
        atMillis >= sinceMillis && pattern.test(`${message} ${JSON.stringify(fields)}`),
    );
  }
}
