/**
 * What the module of engine/window_functions/kernel/windows.kernel.ts exports; numbers are
 * addresses in its memory unless they say more.
 */
export interface WindowsExports {
  list(
    chunk: number,
    start: number,
    end: number,
    from: bigint,
    past: bigint,
    entries: number,
    found: number,
  ): number;
  decode(
    chunk: number,
    tables: number,
    entries: number,
    found: number,
    from: bigint,
    past: bigint,
    columns: number,
    spare: number,
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
