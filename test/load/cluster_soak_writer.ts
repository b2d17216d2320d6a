/**
 * Remote write of all series at every step, as Prometheus does it: some connections, on each of
 * which one request follows the other, and is sent again until it is taken or refused for good.
 * When the cluster is away the senders fall behind, and catch up.
 */
import { Agent, request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { clusterData, type Grid, sliceCount, timeOf } from './cluster_soak_data.ts';
import type { Ledger } from './cluster_soak_ledger.ts';
import { SliceBody } from './soak_data.ts';

const sendersMax = 8;
const writePath = '/api/v1/compat/remote/write';
/** Those of Prometheus. */
const backoffMinMillis = 30;
const backoffMaxMillis = 5000;
const attemptTimeoutMillis = 30_000;
/** Shorter times without an acknowledged request are not kept. */
const pauseMinMillis = 1000;
const problemsMax = 100;

export interface WriteCounts {
  requests: number;
  requestsAcknowledged: number;
  /** Those that have an answer, or none in time. */
  firstAttempts: number;
  firstAttemptsAcknowledged: number;
  attemptsFailed: number;
  /** Prometheus drops these. */
  requestsRefused: number;
  samplesAcknowledged: number;
  /** The furthest that a sender was behind. */
  behindMaxMillis: number;
}

/** A time in which no request was acknowledged. */
export interface Pause {
  readonly fromUnixMillis: number;
  readonly toUnixMillis: number;
}

export class ClusterWriter {
  readonly #grid: Grid;
  readonly #ledger: Ledger;
  readonly #urls: readonly string[];
  readonly #bodies: readonly SliceBody[];
  readonly #report: (line: string) => void;
  readonly #agent = new Agent({ keepAlive: true });
  readonly #problems = new Set<string>();
  readonly pauses: Pause[] = [];
  readonly counts: WriteCounts = {
    requests: 0,
    requestsAcknowledged: 0,
    firstAttempts: 0,
    firstAttemptsAcknowledged: 0,
    attemptsFailed: 0,
    requestsRefused: 0,
    samplesAcknowledged: 0,
    behindMaxMillis: 0,
  };
  #lastAcknowledged = 0;

  /** @param urls coordinators, as behind a balancer: whoever fails is left for the next one */
  constructor(grid: Grid, ledger: Ledger, urls: readonly string[], report: (line: string) => void) {
    this.#grid = grid;
    this.#ledger = ledger;
    this.#urls = urls;
    this.#report = report;
    this.#bodies = Array.from(
      { length: sliceCount(grid) },
      (_, slice) => new SliceBody(slice, grid.seriesCount, 0, clusterData),
    );
  }

  /**
   * Sends until `ended` aborts and what is due by then is sent; `given up` leaves the rest.
   */
  async run(ended: AbortSignal, givenUp: AbortSignal): Promise<void> {
    this.#lastAcknowledged = Date.now();
    const senders = Math.min(sendersMax, this.#bodies.length);
    await Promise.all(
      Array.from({ length: senders }, (_, sender) => this.#send(sender, senders, ended, givenUp)),
    );
    this.#notePause(Date.now());
    this.#agent.destroy();
  }

  async #send(
    sender: number,
    senders: number,
    ended: AbortSignal,
    givenUp: AbortSignal,
  ): Promise<void> {
    const slices = this.#bodies.length;
    let coordinator = sender;
    for (let step = 0; step < this.#ledger.stepsMax; step += 1) {
      for (let slice = sender; slice < slices; slice += senders) {
        const due = timeOf(this.#grid, step) + (slice / slices) * this.#grid.stepMillis;
        const left = due - Date.now();
        if (left > 0) {
          await delay(left, undefined, { signal: ended }).catch(() => {});
          if (ended.aborted) return;
        }
        coordinator = await this.#sendOne(slice, step, due, coordinator, givenUp);
        if (givenUp.aborted) return;
      }
    }
  }

  /** Resolves to the coordinator to go on with. */
  async #sendOne(
    slice: number,
    step: number,
    dueUnixMillis: number,
    coordinator: number,
    givenUp: AbortSignal,
  ): Promise<number> {
    const { counts } = this;
    const made = this.#bodies[slice]!;
    const body = made.at(step, timeOf(this.#grid, step));
    counts.requests += 1;
    this.#ledger.noteSent(slice, step);
    let at = coordinator;
    for (let attempt = 0, backoff = backoffMinMillis; ; attempt += 1) {
      let problem: string;
      try {
        const url = this.#urls[at % this.#urls.length]!;
        const { status, text } = await this.#post(url, body).finally(() => {
          if (attempt === 0) counts.firstAttempts += 1;
        });
        if (status === 200) {
          const now = Date.now();
          this.#ledger.noteAcknowledged(slice, step);
          this.#notePause(now);
          counts.requestsAcknowledged += 1;
          if (attempt === 0) counts.firstAttemptsAcknowledged += 1;
          counts.samplesAcknowledged += made.seriesCount;
          counts.behindMaxMillis = Math.max(counts.behindMaxMillis, now - dueUnixMillis);
          return at;
        }
        problem = `${status} ${text}`;
        if (status < 500 && status !== 429) {
          counts.requestsRefused += 1;
          this.#note(`refused for good: ${problem}`);
          return at;
        }
      } catch (error) {
        problem = String(error);
      }
      counts.attemptsFailed += 1;
      this.#note(`sent again: ${problem}`);
      at += 1;
      await delay(backoff, undefined, { signal: givenUp }).catch(() => {});
      if (givenUp.aborted) return at;
      backoff = Math.min(backoffMaxMillis, backoff * 2);
    }
  }

  #notePause(now: number): void {
    if (now - this.#lastAcknowledged >= pauseMinMillis) {
      this.pauses.push({ fromUnixMillis: this.#lastAcknowledged, toUnixMillis: now });
    }
    this.#lastAcknowledged = now;
  }

  #note(text: string): void {
    // One of each kind is enough to look into.
    const kind = text.replace(/\d+/g, '#').slice(0, 160);
    if (this.#problems.has(kind) || this.#problems.size >= problemsMax) return;
    this.#problems.add(kind);
    this.#report(`write ${text.slice(0, 400)}`);
  }

  #post(url: string, body: Buffer): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      const asked = request(
        `${url}${writePath}`,
        {
          method: 'POST',
          agent: this.#agent,
          headers: { 'content-length': body.length },
          signal: AbortSignal.timeout(attemptTimeoutMillis),
        },
        (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (part: string) => {
            text += part;
          });
          response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
          response.on('error', reject);
        },
      );
      asked.on('error', reject);
      asked.end(body);
    });
  }
}
