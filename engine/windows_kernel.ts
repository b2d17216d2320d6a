/**
 * The window functions on the kernel of kernels/windows.kernel.ts: a series' chunks are copied into the kernel's
 * memory, decoded there, and the dear functions run there; the rest reads the decoded columns in place.
 */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import { compileWasmFile } from '#lib/env/wasm.ts';
import { codecTablesBytes, makeCodecTables } from './codec_books.ts';
import { absentBits } from './row.ts';
import type { RowBuffer } from './row.ts';
import type { SeriesBundle } from './series_bundle.ts';
import type { WindowEvaluator, WindowRequest } from './windows.ts';
import { windowFunctionTable } from './windows_functions.ts';
import { WindowsTwin } from './windows_twin.ts';

interface WindowsExports {
  rowsOf(chunk: number, start: number, end: number, from: bigint, past: bigint): number;
  decode(
    chunk: number,
    tables: number,
    start: number,
    end: number,
    from: bigint,
    past: bigint,
    columns: number,
  ): number;
  decodeAnyOrder(
    chunk: number,
    tables: number,
    start: number,
    end: number,
    from: bigint,
    past: bigint,
    columns: number,
    other: number,
    runs: number,
  ): number;
  dropStale(times: number, values: number, rows: number): number;
  sameTimes(a: number, b: number, rows: number): number;
  toMillis(times: number, rows: number, millis: number): void;
  locate(
    millis: number,
    rows: number,
    referenceStart: number,
    referenceStep: number,
    range: number,
    steps: number,
    starts: number,
    ends: number,
  ): void;
  instantRow(values: number, starts: number, ends: number, steps: number, out: number): void;
  countRow(starts: number, ends: number, steps: number, out: number): void;
  rateConstants(
    millis: number,
    starts: number,
    ends: number,
    steps: number,
    referenceStart: number,
    referenceStep: number,
    range: number,
    isRate: number,
    constants: number,
  ): void;
  counterRow(
    values: number,
    rows: number,
    starts: number,
    ends: number,
    steps: number,
    constants: number,
    prefix: number,
    range: number,
    isRate: number,
    out: number,
  ): void;
  deltaRow(
    values: number,
    starts: number,
    ends: number,
    steps: number,
    constants: number,
    out: number,
  ): void;
  sumRow(
    values: number,
    rows: number,
    starts: number,
    ends: number,
    steps: number,
    prefix: number,
    isMean: number,
    out: number,
  ): number;
  extremeRow(
    values: number,
    rows: number,
    starts: number,
    ends: number,
    steps: number,
    blocks: number,
    wantsGreatest: number,
    out: number,
  ): void;
}

const pageBytes = 65_536;
const memoryPagesMax = 65_536;
/** Wide loads and stores may touch this much behind a region. */
const slackBytes = 64;
const chunkStructBytes = 128;
/** A chunk takes at least this much of its series' bytes, so a series has at most so many runs to merge. */
const chunkBytesMin = 4;

/** Addresses of the regions; everything but the tables is scratch of one call, or a cache that can be lost. */
interface Layout {
  readonly chunk: number;
  readonly tables: number;
  readonly columns: number;
  readonly otherColumns: number;
  readonly bytes: number;
  readonly runs: number;
  readonly times: number;
  readonly knownTimes: number;
  readonly values: number;
  readonly millis: number;
  readonly prefix: number;
  readonly starts: number;
  readonly ends: number;
  readonly constants: number;
  readonly row: number;
  readonly end: number;
}

interface Views {
  readonly bytes: Uint8Array;
  readonly millis: Float64Array;
  readonly values: Float64Array;
  readonly valueBits: BigUint64Array;
  readonly starts: Int32Array;
  readonly ends: Int32Array;
  readonly rowBits: BigUint64Array;
}

let compiled: WebAssembly.Module | null = null;

/** Whether the request's times are the same as another's, so that located windows can be kept. */
function sameGrid(a: WindowRequest, b: WindowRequest): boolean {
  return (
    a.stepCount === b.stepCount &&
    a.referenceStartMillis === b.referenceStartMillis &&
    a.referenceStepMillis === b.referenceStepMillis &&
    a.rangeMillis === b.rangeMillis
  );
}

export class WindowsKernel implements WindowEvaluator {
  readonly #memory: WebAssembly.Memory;
  readonly #kernel: WindowsExports;
  readonly #twin: WindowsTwin;
  #layout: Layout;
  #views: Views;
  #bytesMax: number;
  #rowsMax: number;
  #stepsMax: number;
  /** What the located windows belong to; null when they are of nothing. */
  #locatedRequest: WindowRequest | null;
  #locatedRows: number;
  /** Whose rate constants are there. */
  #constantsRequest: WindowRequest | null;

  constructor() {
    compiled ??= compileWasmFile(new URL('./build/windows.wasm', import.meta.url));
    this.#memory = new WebAssembly.Memory({
      initial: 16,
      maximum: memoryPagesMax,
      shared: true,
    });
    const instance = new WebAssembly.Instance(compiled, {
      env: {
        memory: this.#memory,
        abort: () => {
          throw new Error('the windows kernel stopped');
        },
      },
    });
    this.#kernel = instance.exports as unknown as WindowsExports;
    this.#twin = new WindowsTwin();
    this.#bytesMax = 16_384;
    this.#rowsMax = 4096;
    this.#stepsMax = 1024;
    this.#locatedRequest = null;
    this.#locatedRows = -1;
    this.#constantsRequest = null;
    this.#layout = this.#layOut();
    this.#views = this.#makeViews();
    new Uint8Array(this.#memory.buffer).set(makeCodecTables(), this.#layout.tables);
  }

  #layOut(): Layout {
    let next = slackBytes;
    const region = (bytes: number): number => {
      const at = next;
      next = Math.ceil((at + bytes + slackBytes) / 64) * 64;
      return at;
    };
    const columnBytes = (this.#rowsMax + 8) * 8;
    const stepBytes = this.#stepsMax * 8;
    const chunk = region(chunkStructBytes);
    const tables = region(codecTablesBytes);
    const columns = region(16);
    const otherColumns = region(16);
    const bytes = region(this.#bytesMax);
    const runs = region((this.#bytesMax / chunkBytesMin + 2) * 4);
    const [times, values, versions, otherTimes, otherValues, otherVersions] = [
      region(columnBytes),
      region(columnBytes),
      region(columnBytes),
      region(columnBytes),
      region(columnBytes),
      region(columnBytes),
    ];
    const layout: Layout = {
      chunk,
      tables,
      columns,
      otherColumns,
      bytes,
      runs,
      times,
      values,
      knownTimes: region(columnBytes),
      millis: region(columnBytes),
      prefix: region(columnBytes),
      starts: region(stepBytes),
      ends: region(stepBytes),
      constants: region(stepBytes * 4),
      row: region(stepBytes),
      end: next,
    };
    const pages = Math.ceil(next / pageBytes);
    if (pages > memoryPagesMax) {
      throw badRequest(
        `cannot evaluate the series: it needs ${pages} pages of kernel memory, at most ${memoryPagesMax} are there`,
      );
    }
    const held = this.#memory.buffer.byteLength / pageBytes;
    if (pages > held) this.#memory.grow(pages - held);
    new Uint32Array(this.#memory.buffer, columns, 4).set([times, values, versions, 0]);
    new Uint32Array(this.#memory.buffer, otherColumns, 4).set([
      otherTimes,
      otherValues,
      otherVersions,
      0,
    ]);
    return layout;
  }

  #makeViews(): Views {
    const { buffer } = this.#memory;
    const layout = this.#layout;
    return {
      bytes: new Uint8Array(buffer, layout.bytes, this.#bytesMax),
      millis: new Float64Array(buffer, layout.millis, this.#rowsMax),
      values: new Float64Array(buffer, layout.values, this.#rowsMax),
      valueBits: new BigUint64Array(buffer, layout.values, this.#rowsMax),
      starts: new Int32Array(buffer, layout.starts, this.#stepsMax),
      ends: new Int32Array(buffer, layout.ends, this.#stepsMax),
      rowBits: new BigUint64Array(buffer, layout.row, this.#stepsMax),
    };
  }

  /** Makes room; tables stay where they are, for they stand in front of everything that grows. */
  #reserve(bytes: number, rows: number, steps: number): void {
    if (bytes <= this.#bytesMax && rows <= this.#rowsMax && steps <= this.#stepsMax) return;
    const grown = (held: number, wanted: number) =>
      wanted <= held ? held : Math.ceil((wanted * 1.25) / 64) * 64;
    const before = [this.#bytesMax, this.#rowsMax, this.#stepsMax] as const;
    this.#bytesMax = grown(this.#bytesMax, bytes);
    this.#rowsMax = grown(this.#rowsMax, rows);
    this.#stepsMax = grown(this.#stepsMax, steps);
    try {
      this.#layout = this.#layOut();
    } catch (error) {
      [this.#bytesMax, this.#rowsMax, this.#stepsMax] = before;
      throw error;
    }
    this.#views = this.#makeViews();
    this.#locatedRequest = null;
    this.#constantsRequest = null;
  }

  evaluate(
    request: WindowRequest,
    bundle: SeriesBundle,
    index: number,
    startNanos: bigint,
    endNanos: bigint,
    target: RowBuffer,
    at: number,
  ): number {
    const decoded = this.#decode(request, bundle, index, startNanos, endNanos);
    const kernel = this.#kernel;
    const { times, values, starts, ends, row } = this.#layout;
    const { stepCount } = request;
    if (request.function === 'instant' || request.function === 'instantTime') {
      this.#locate(request, decoded);
      if (request.function === 'instant') {
        kernel.instantRow(values, starts, ends, stepCount, row);
        target.bits.set(this.#views.rowBits.subarray(0, stepCount), at);
      } else this.#instantTimes(request, target, at);
      return decoded;
    }
    const rows = kernel.dropStale(times, values, decoded);
    this.#locate(request, rows);
    if (this.#onKernel(request, rows)) {
      target.bits.set(this.#views.rowBits.subarray(0, stepCount), at);
    } else {
      const columns = {
        times: this.#views.millis,
        values: this.#views.values,
        rowCount: rows,
        starts: this.#views.starts,
        ends: this.#views.ends,
      };
      windowFunctionTable[request.function](columns, request, target, at);
    }
    return decoded;
  }

  /** Leaves the rows in the columns. */
  #decode(
    request: WindowRequest,
    bundle: SeriesBundle,
    index: number,
    startNanos: bigint,
    endNanos: bigint,
  ): number {
    const kernel = this.#kernel;
    const chunks = bundle.chunkData.subarray(
      bundle.chunkOffset[index]!,
      bundle.chunkOffset[index + 1]!,
    );
    this.#reserve(chunks.length, 0, request.stepCount);
    this.#views.bytes.set(chunks);
    const { chunk, bytes } = this.#layout;
    const counted = kernel.rowsOf(chunk, bytes, bytes + chunks.length, startNanos, endNanos);
    if (counted === -1) throw badRequest('cannot read a series: a chunk of it is malformed');
    const isAscending = counted >= 0;
    const rowsMax = isAscending ? counted : -counted - 2;
    if (rowsMax > this.#rowsMax) {
      this.#reserve(0, rowsMax, 0);
      this.#views.bytes.set(chunks);
    }
    const layout = this.#layout;
    const end = layout.bytes + chunks.length;
    const rows = isAscending
      ? kernel.decode(
          layout.chunk,
          layout.tables,
          layout.bytes,
          end,
          startNanos,
          endNanos,
          layout.columns,
        )
      : kernel.decodeAnyOrder(
          layout.chunk,
          layout.tables,
          layout.bytes,
          end,
          startNanos,
          endNanos,
          layout.columns,
          layout.otherColumns,
          layout.runs,
        );
    if (rows < 0) throw badRequest('cannot read a series: a chunk of it is malformed');
    assert(rows <= rowsMax, 'decoding gives no more rows than were counted');
    return rows;
  }

  /** Locates the windows unless the series before had the same times on the same grid. */
  #locate(request: WindowRequest, rows: number): void {
    const kernel = this.#kernel;
    const layout = this.#layout;
    const known = this.#locatedRequest;
    if (
      known !== null &&
      this.#locatedRows === rows &&
      (known === request || sameGrid(known, request)) &&
      kernel.sameTimes(layout.times, layout.knownTimes, rows) !== 0
    ) {
      return;
    }
    kernel.toMillis(layout.times, rows, layout.millis);
    kernel.locate(
      layout.millis,
      rows,
      request.referenceStartMillis,
      request.referenceStepMillis,
      request.rangeMillis,
      request.stepCount,
      layout.starts,
      layout.ends,
    );
    const memory = new Uint8Array(this.#memory.buffer);
    memory.copyWithin(layout.knownTimes, layout.times, layout.times + rows * 8);
    this.#locatedRequest = request;
    this.#locatedRows = rows;
    this.#constantsRequest = null;
  }

  #instantTimes(request: WindowRequest, target: RowBuffer, at: number): void {
    const { starts, ends, millis, valueBits } = this.#views;
    for (let step = 0; step < request.stepCount; step++) {
      const last = ends[step]! - 1;
      if (last < starts[step]! || valueBits[last] === absentBits) {
        target.bits[at + step] = absentBits;
      } else target.values[at + step] = millis[last]! / 1000;
    }
  }

  #needConstants(request: WindowRequest): void {
    const known = this.#constantsRequest;
    if (known !== null && known.function === request.function) return;
    const layout = this.#layout;
    this.#kernel.rateConstants(
      layout.millis,
      layout.starts,
      layout.ends,
      request.stepCount,
      request.referenceStartMillis,
      request.referenceStepMillis,
      request.rangeMillis,
      request.function === 'rate' ? 1 : 0,
      layout.constants,
    );
    this.#constantsRequest = request;
  }

  /** The functions that the kernel has; their row is left there. False = not one of them. */
  #onKernel(request: WindowRequest, rows: number): boolean {
    const kernel = this.#kernel;
    const { values, starts, ends, constants, prefix, row } = this.#layout;
    const { stepCount } = request;
    switch (request.function) {
      case 'rate':
      case 'increase':
        this.#needConstants(request);
        kernel.counterRow(
          values,
          rows,
          starts,
          ends,
          stepCount,
          constants,
          prefix,
          request.rangeMillis,
          request.function === 'rate' ? 1 : 0,
          row,
        );
        return true;
      case 'delta':
        this.#needConstants(request);
        kernel.deltaRow(values, starts, ends, stepCount, constants, row);
        return true;
      case 'sum':
      case 'avg': {
        const isMean = request.function === 'avg' ? 1 : 0;
        return kernel.sumRow(values, rows, starts, ends, stepCount, prefix, isMean, row) !== 0;
      }
      case 'min':
      case 'max': {
        const wantsGreatest = request.function === 'max' ? 1 : 0;
        kernel.extremeRow(values, rows, starts, ends, stepCount, prefix, wantsGreatest, row);
        return true;
      }
      case 'count':
        kernel.countRow(starts, ends, stepCount, row);
        return true;
      case 'last':
        kernel.instantRow(values, starts, ends, stepCount, row);
        return true;
      default:
        return false;
    }
  }

  evaluateColumns(
    request: WindowRequest,
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    target: RowBuffer,
    at: number,
  ): void {
    this.#twin.evaluateColumns(request, timestampMillis, values, rowCount, target, at);
  }
}
