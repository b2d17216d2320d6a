/** Requests that write: admitted, and put through the sequencer. */
import type { ColumnsWriteRequest, WriteRequest, WriteResponse } from '#cluster/node/service.ts';
import type { Admission } from '../admission/admission.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import type { Sequencer } from './sequencer.ts';
import { PendingWrite, type WriteContext } from './write.ts';

/** What it takes to write. */
export interface WritesParts extends WriteContext {
  readonly admission: Admission;
  readonly sequencer: Sequencer;
  /** The namespace with this name. @throws {TsdbError} NOT_FOUND, UNAVAILABLE */
  readonly namespaceOf: (name: string) => NamespaceState;
}

export class Writes {
  readonly #parts: WritesParts;
  /** Counts of this process, for metrics. */
  readonly counts: { rowsWritten: number; rowsRefused: number } = {
    rowsWritten: 0,
    rowsRefused: 0,
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
    const namespace = this.#parts.namespaceOf(request.namespace);
    const write = new PendingWrite(this.#parts, namespace, request);
    const { admission, sequencer, versions } = this.#parts;
    versions.check(write.version);
    const response = await admission.limited('writes', async () => {
      await admission.placementVersion(request.placementVersion, signal);
      return sequencer.submit(write, signal);
    });
    this.counts.rowsWritten += write.writtenCount;
    this.counts.rowsRefused += write.rowCount - write.writtenCount;
    return response;
  }
}
