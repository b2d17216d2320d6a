/** Requests that write: admitted, and put through the sequencer. */
import { namesEarlier } from '#cluster/namespaces/numbers.ts';
import {
  type ColumnsWriteRequest,
  type OfNamespace,
  rowOutcome,
  type WriteRequest,
  type WriteResponse,
} from '#cluster/node/service.ts';
import {
  resolutionsFormatLevel,
  rowVersionsFormatLevel,
  typedRowsFormatLevel,
} from '#lib/format_level.ts';
import type { Admission } from '../admission/admission.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { SampleNamespaces } from '../namespace/sample_namespaces.ts';
import type { ShardTable } from '../namespace/shards.ts';
import type { Sequencer } from './sequencer.ts';
import { newestSchemaOf } from './value_rules.ts';
import { PendingWrite, type WriteContext } from './write.ts';

/** What it takes to write. */
export interface WritesParts extends WriteContext {
  readonly admission: Admission;
  readonly sequencer: Sequencer;
  readonly shards: ShardTable;
  readonly sampleNamespaces: SampleNamespaces;
  /**
   * The namespace that is named, or a later one of the name.
   * @throws {TsdbError} NOT_FOUND, UNAVAILABLE
   */
  readonly namespaceOf: (request: OfNamespace, signal: AbortSignal) => Promise<NamespaceState>;
  /**
   * Called when somebody sends what only a level of formats has that this node does not write yet.
   * @throws {TsdbError} UNAVAILABLE when the disk fails
   */
  readonly onLaterFormats: (level: number) => Promise<void>;
}

/** Outcomes of rows that their writer sends once more, at once and in another form: nobody has lost them. */
const sentAgain: ReadonlySet<number> = new Set([
  rowOutcome.unknownReference,
  rowOutcome.shardNotOwned,
  rowOutcome.stalePlacement,
  rowOutcome.superseded,
  rowOutcome.otherSchema,
]);

export class Writes {
  readonly #parts: WritesParts;
  /** Counts of this process, for metrics. */
  readonly counts: { rowsWritten: number; rowsRefused: number; rowsSentBack: number } = {
    rowsWritten: 0,
    rowsRefused: 0,
    rowsSentBack: 0,
  };

  constructor(parts: WritesParts) {
    this.#parts = parts;
  }

  /** Names the references of this boot; others are refused by row. */
  get referenceEpoch(): string {
    return this.#parts.referenceEpoch;
  }

  async write(
    request: WriteRequest | ColumnsWriteRequest,
    signal: AbortSignal,
  ): Promise<WriteResponse> {
    const { admission, sequencer, shards, versions, formats, namespaceOf, sampleNamespaces } =
      this.#parts;
    return admission.limited('writes', async () => {
      const namespace = await namespaceOf(request, signal);
      shards.checkCounts();
      const write = new PendingWrite(this.#parts, namespace, request);
      versions.check(write.version);
      if (namesEarlier(request, namespace.definition)) {
        this.counts.rowsSentBack += write.rowCount;
        return write.refused(rowOutcome.stalePlacement);
      }
      if (formats.level() >= resolutionsFormatLevel) sampleNamespaces.checkRelease(request);
      if (sampleNamespaces.isBehind(request)) {
        this.counts.rowsSentBack += write.rowCount;
        return write.refused(rowOutcome.stalePlacement);
      }
      await admission.placementVersion(request.placementVersion, signal);
      // A chunk with one version for all of its rows would stand over what they are rewritten with.
      if (write.derivesVersions && formats.level() < rowVersionsFormatLevel) {
        await this.#parts.onLaterFormats(rowVersionsFormatLevel);
      }
      if (write.isTyped && formats.level() < typedRowsFormatLevel) {
        await this.#parts.onLaterFormats(typedRowsFormatLevel);
      }
      if (write.isTyped) {
        const { newestSchema } = write;
        await admission.schema(() => newestSchema <= newestSchemaOf(namespace), signal);
      }
      const response = await sequencer.submit(write, signal);
      this.counts.rowsWritten += write.writtenCount;
      for (const outcome of response.outcomes) {
        if (outcome === rowOutcome.written) continue;
        if (sentAgain.has(outcome)) this.counts.rowsSentBack += 1;
        else this.counts.rowsRefused += 1;
      }
      return response;
    });
  }
}
