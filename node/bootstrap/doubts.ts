/**
 * What a start doubts: blocks of which the damage of the log, or of the ledger itself, may have
 * taken rows that were acknowledged.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import type { UnixNanos } from '#lib/time.ts';
import type { RetentionClock } from '../clock/retention_clock.ts';
import type { DoubtLedger } from '../doubt/ledger.ts';
import { anyNamespace, type RowSpan } from '../persist/commitlog/format.ts';
import type { NamespaceState } from '../storage/namespace/namespace.ts';
import type { ShardTable } from '../storage/namespace/shards.ts';
import type { LogLoss } from './log_loss.ts';

/** What it takes to note doubts. */
export interface DoubtParts {
  readonly env: Env;
  readonly log: Log;
  readonly namespaces: ReadonlyMap<string, NamespaceState>;
  readonly shards: ShardTable;
  readonly retentionClock: RetentionClock;
  readonly doubts: DoubtLedger;
}

/**
 * Adds to the ledger what the losses cast doubt on, and has it on disk if that takes anything. When
 * the disk refuses, the damage stays where it was seen (snapshots and ticks see to that), and the
 * next start sees it again.
 */
export async function noteDoubts(parts: DoubtParts, lost: readonly LogLoss[]): Promise<void> {
  const { doubts, log } = parts;
  if (doubts.unreadable !== '') {
    const fields = { error: doubts.unreadable };
    log.error(fields, 'the ledger of doubt cannot be read: all that is here is in doubt');
    note(parts, 'ledger of doubt', null);
  }
  for (const { path, spans } of lost) note(parts, nameOf(path), spans);
  try {
    await doubts.save();
  } catch (error) {
    log.error({ error: messageOf(error) }, 'the ledger of doubt cannot be written yet');
  }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** @param spans where rows may be missing; null for everywhere */
function note(parts: DoubtParts, cause: string, spans: readonly RowSpan[] | null): void {
  const shards = parts.shards.here();
  for (const namespace of parts.namespaces.values()) {
    const { name } = namespace;
    const limits = limitsOf(parts, namespace);
    const blocks = new Set<UnixNanos>();
    const isMeant = (span: RowSpan): boolean =>
      span.namespace === name || span.namespace === anyNamespace;
    for (const { firstNanos, lastNanos } of spans?.filter(isMeant) ?? [limits]) {
      const last = lastNanos < limits.lastNanos ? lastNanos : limits.lastNanos;
      const first = firstNanos > limits.firstNanos ? firstNanos : limits.firstNanos;
      let start = namespace.blockStartOf(first);
      for (; start <= last; start += namespace.blockSizeNanos) blocks.add(start);
    }
    parts.doubts.add(cause, name, shards, blocks);
  }
}

/** Of the times that rows of a namespace can have: within retention, and as far ahead as is taken. */
function limitsOf(
  { env, retentionClock }: DoubtParts,
  { retentionNanos, options }: NamespaceState,
): { firstNanos: UnixNanos; lastNanos: UnixNanos } {
  const { bufferFutureNanos, futureRetentionPeriodNanos } = options.retentionOptions;
  const aheadNanos =
    bufferFutureNanos > futureRetentionPeriodNanos ? bufferFutureNanos : futureRetentionPeriodNanos;
  const now = env.clock.nowNanos();
  const kept = retentionClock.nowNanos();
  return {
    firstNanos: kept - retentionNanos,
    lastNanos: (now > kept ? now : kept) + aheadNanos,
  };
}
