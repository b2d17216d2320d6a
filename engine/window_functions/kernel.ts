/**
 * The window functions on the kernel of engine/window_functions/kernel/windows.kernel.ts: a series'
 * chunks are copied into the kernel's memory, decoded there, and the dear functions run there; the
 * rest reads the decoded columns in place.
 */
import { assert } from '#lib/assert.ts';
import { badRequest } from '#lib/errors.ts';
import { codecTablesBytes, codecTables } from '../codec/books.ts';
import { absentBits } from './row.ts';
import type { RowBuffer } from './row.ts';
import type { SeriesBundle } from '../codec/series_bundle.ts';
import { isTooDear, rowsOfWindows } from './units.ts';
import { tooDear, type WindowEvaluator, type WindowRequest } from './windows.ts';
import type { WindowsExports } from './windows_exports.ts';
import { instantiateWindows } from './instance.ts';
import { WindowFunctions } from './functions.ts';
import { WindowIndex } from './window_index.ts';

const pageBytes = 65_536;
const memoryPagesMax = 65_536;
/**
 * A chunk takes at least this much of its series' bytes, so a series has at most so many to list.
 */
const chunkBytesMin = 6;

/**
 * Addresses of the regions; everything but the tables is scratch of one call, or a cache that can
 * be lost.
 */
interface Layout {
  readonly chunk: number;
  readonly tables: number;
  readonly columns: number;
  readonly spareColumns: number;
  readonly bytes: number;
  /** The list of chunks. */
  readonly entries: number;
  readonly found: number;
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

const bytesMin = 16_384;
const rowsMin = 4096;
const stepsMin = 1024;
/** More than this is given back after so many series that need less. */
const keptBytesMax = 64 * 1024 * 1024;
const smallSeriesBeforeShrink = 1000;
/** By what `sumRow` of the kernel returns. */
const sumOutcomes = ['notHere', 'done', 'tooDear'] as const;
/** Of a block of the kernel (kernel/functions.ts). */
const blockRows = 16;
/** Rows that a byte of chunks usually stands for; only to tell long series from others. */
const rowsPerByteUsual = 3;

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
  #memory: WebAssembly.Memory;
  #kernel: WindowsExports;
  /** What the kernel does not have; given back with its memory after a long series. */
  #functions: WindowFunctions;
  /** Windows of columns that are not in the kernel's memory. */
  #columnsIndex: WindowIndex;
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

  /** Series evaluated since the last one that needed more memory than is kept. */
  #smallSeries: number;

  constructor() {
    this.#functions = new WindowFunctions();
    this.#columnsIndex = new WindowIndex();
    this.#bytesMax = bytesMin;
    this.#rowsMax = rowsMin;
    this.#stepsMax = stepsMin;
    this.#locatedRequest = null;
    this.#locatedRows = -1;
    this.#constantsRequest = null;
    this.#smallSeries = 0;
    const { memory, kernel } = instantiateWindows();
    this.#memory = memory;
    this.#kernel = kernel;
    this.#layout = this.#layOut();
    this.#views = this.#makeViews();
    new Uint8Array(memory.buffer).set(codecTables(), this.#layout.tables);
  }

  /** Bytes of the kernel's memory and of the scratch beside it. */
  get memoryBytes(): number {
    return this.#memory.buffer.byteLength + this.#functions.memoryBytes;
  }

  /** Gives the memory of a very long series back once such series have not come for a while. */
  #shrinkAfterLongSeries(chunkBytes: number): void {
    if (this.#layout.end <= keptBytesMax) return;
    if (chunkBytes * rowsPerByteUsual > this.#rowsMax / 4) this.#smallSeries = 0;
    else this.#smallSeries++;
    if (this.#smallSeries < smallSeriesBeforeShrink) return;
    this.#smallSeries = 0;
    this.#bytesMax = bytesMin;
    this.#rowsMax = rowsMin;
    this.#stepsMax = stepsMin;
    this.#functions = new WindowFunctions();
    const { memory, kernel } = instantiateWindows();
    this.#memory = memory;
    this.#kernel = kernel;
    this.#layout = this.#layOut();
    this.#views = this.#makeViews();
    new Uint8Array(memory.buffer).set(codecTables(), this.#layout.tables);
    this.#locatedRequest = null;
    this.#constantsRequest = null;
  }

  #layOut(): Layout {
    const { chunkStructBytes, columnSlackBytes, listedBytes } = this.#kernel;
    // Wide loads and stores may touch this much after a region.
    const slackBytes = columnSlackBytes.value;
    let next = slackBytes;
    const region = (bytes: number): number => {
      const at = next;
      next = Math.ceil((at + bytes + slackBytes) / 64) * 64;
      return at;
    };
    const columnBytes = (this.#rowsMax + 8) * 8;
    const stepBytes = this.#stepsMax * 8;
    const chunk = region(chunkStructBytes.value);
    const tables = region(codecTablesBytes);
    const columns = region(16);
    const spareColumns = region(16);
    const found = region(16);
    const bytes = region(this.#bytesMax);
    const entries = region((Math.ceil(this.#bytesMax / chunkBytesMin) + 2) * listedBytes.value);
    const [times, values, lags, otherTimes, otherValues, otherLags] = [
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
      spareColumns,
      found,
      bytes,
      entries,
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
    new Uint32Array(this.#memory.buffer, columns, 4).set([times, values, lags, 0]);
    new Uint32Array(this.#memory.buffer, spareColumns, 4).set([
      otherTimes,
      otherValues,
      otherLags,
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
    unitsMax: number = Number.POSITIVE_INFINITY,
  ): number {
    const decoded = this.#decode(request, bundle, index, startNanos, endNanos, unitsMax);
    if (decoded === tooDear) return tooDear;
    // The kernel and its layout may be others now.
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
    const outcome = this.#onKernel(request, rows, unitsMax);
    if (outcome === 'done') target.bits.set(this.#views.rowBits.subarray(0, stepCount), at);
    else if (outcome === 'tooDear') return tooDear;
    else {
      const columns = {
        times: this.#views.millis,
        values: this.#views.values,
        rowCount: rows,
        starts: this.#views.starts,
        ends: this.#views.ends,
      };
      if (isTooDear(request, rows, columns.starts, columns.ends, unitsMax)) return tooDear;
      this.#functions.evaluate(columns, request, target, at);
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
    unitsMax: number,
  ): number {
    const chunks = bundle.chunkData.subarray(
      bundle.chunkOffset[index]!,
      bundle.chunkOffset[index + 1]!,
    );
    this.#shrinkAfterLongSeries(chunks.length);
    this.#reserve(chunks.length, 0, request.stepCount);
    this.#views.bytes.set(chunks);
    const rowsMax = this.#list(chunks.length, startNanos, endNanos);
    if (rowsMax + request.stepCount > unitsMax) return tooDear;
    if (rowsMax > this.#rowsMax) {
      this.#reserve(0, rowsMax, 0);
      this.#views.bytes.set(chunks);
      this.#list(chunks.length, startNanos, endNanos);
    }
    const { chunk, tables, entries, found, columns, spareColumns } = this.#layout;
    const rows = this.#kernel.decode(
      chunk,
      tables,
      entries,
      found,
      startNanos,
      endNanos,
      columns,
      spareColumns,
    );
    if (rows < 0) throw badRequest('cannot read a series: a chunk of it is malformed');
    assert(rows <= rowsMax, 'decoding gives no more rows than were counted');
    return rows;
  }

  /** @returns rows of the chunks of the range */
  #list(length: number, startNanos: bigint, endNanos: bigint): number {
    const { chunk, bytes, entries, found } = this.#layout;
    const end = bytes + length;
    const rows = this.#kernel.list(chunk, bytes, end, startNanos, endNanos, entries, found);
    if (rows < 0) throw badRequest('cannot read a series: a chunk of it is malformed');
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

  /** The functions that the kernel has; their row is left there. */
  #onKernel(
    request: WindowRequest,
    rows: number,
    unitsMax: number,
  ): 'done' | 'tooDear' | 'notHere' {
    const kernel = this.#kernel;
    const { values, starts, ends, constants, prefix, row } = this.#layout;
    const { stepCount } = request;
    switch (request.function) {
      case 'rate':
      case 'increase':
        this.#needConstants(request);
        return kernel.counterRow(
          values,
          rows,
          starts,
          ends,
          stepCount,
          constants,
          prefix,
          request.rangeMillis,
          request.function === 'rate' ? 1 : 0,
          unitsMax,
          row,
        ) === 0
          ? 'tooDear'
          : 'done';
      case 'delta':
        this.#needConstants(request);
        kernel.deltaRow(values, starts, ends, stepCount, constants, row);
        return 'done';
      case 'sum':
      case 'avg': {
        const isMean = request.function === 'avg' ? 1 : 0;
        const outcome = kernel.sumRow(
          values,
          rows,
          starts,
          ends,
          stepCount,
          prefix,
          isMean,
          unitsMax,
          row,
        );
        return sumOutcomes[outcome]!;
      }
      case 'min':
      case 'max': {
        if (this.#blocksAreTooDear(request, rows, unitsMax)) return 'tooDear';
        const wantsGreatest = request.function === 'max' ? 1 : 0;
        kernel.extremeRow(values, rows, starts, ends, stepCount, prefix, wantsGreatest, row);
        return 'done';
      }
      case 'count':
        kernel.countRow(starts, ends, stepCount, row);
        return 'done';
      case 'last':
        kernel.instantRow(values, starts, ends, stepCount, row);
        return 'done';
      default:
        return 'notHere';
    }
  }

  /** The kernel makes blocks of rows first, and looks at these, and at rows at both ends of a window. */
  #blocksAreTooDear({ stepCount }: WindowRequest, rows: number, unitsMax: number): boolean {
    if (stepCount * (rows / blockRows + 2 * blockRows) <= unitsMax) return false;
    const { starts, ends } = this.#views;
    const all = rowsOfWindows(starts, ends, stepCount);
    return all / blockRows + stepCount * 2 * blockRows > unitsMax;
  }

  evaluateColumns(
    request: WindowRequest,
    timestampMillis: Float64Array,
    values: Float64Array,
    rowCount: number,
    target: RowBuffer,
    at: number,
    unitsMax: number = Number.POSITIVE_INFINITY,
  ): number {
    if (rowCount + request.stepCount > unitsMax) return tooDear;
    const { starts, ends } = this.#columnsIndex.locate(request, timestampMillis, rowCount);
    if (isTooDear(request, rowCount, starts, ends, unitsMax)) return tooDear;
    const columns = { times: timestampMillis, values, rowCount, starts, ends };
    this.#functions.evaluate(columns, request, target, at);
    return rowCount;
  }
}
