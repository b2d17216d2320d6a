/**
 * Spans of what a process does for one request, over all processes that it goes through (docs/TRACING.md). Who has none
 * pays nothing: where spans begin there is null then.
 */

/** A span that is open. */
export interface Span {
  set(name: string, value: string | number): void;
  /** What was done failed, though nothing was thrown. */
  fail(reason: string): void;
}

export interface SpanOptions {
  /** Of work for another process, that waits for other processes, or of a part of it. */
  readonly kind: 'server' | 'client' | 'internal';
  /** Header `traceparent` of W3C's Trace Context, as it came; else the span in which this one begins is its parent. */
  readonly parent?: string | undefined;
  readonly attributes?: Readonly<Record<string, string | number>>;
}

export interface Tracing extends AsyncDisposable {
  /**
   * Does the work in a span: those that begin in it are its children. The work begins before this returns; what it throws is noted.
   */
  run<T>(name: string, options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T>;
  /** Header `traceparent` that says which span is open here; undefined when none is. */
  traceparent(): string | undefined;
}

/** Header of W3C's Trace Context. */
export const traceparentHeader = 'traceparent';
