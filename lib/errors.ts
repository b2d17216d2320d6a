/**
 * Operating errors: what can go wrong without a defect of ours. Each has a stable code, and one
 * table gives its HTTP status. Broken invariants are `BrokenInvariant` in assert.ts and are never
 * mapped.
 */
export const httpStatusOfCode = {
  /** A field of the request has a bad value; the message names field, reason and value. */
  BAD_REQUEST: 400,
  NOT_FOUND: 404,
  /** Create of something that exists, or a compare-and-set that lost. */
  CONFLICT: 409,
  /** A caller's limit or quota is used up; clients retry later. */
  RESOURCE_EXHAUSTED: 429,
  /** The client went away. */
  CANCELLED: 499,
  INTERNAL: 500,
  /** A node of another release does not know the method. */
  UNIMPLEMENTED: 501,
  /** The caller has something to mend first, as its clock; it may send the same again then. */
  FAILED_PRECONDITION: 503,
  /** Not able now: not bootstrapped, no quorum, disk full; clients retry. */
  UNAVAILABLE: 503,
  DEADLINE_EXCEEDED: 504,
} as const;

export type ErrorCode = keyof typeof httpStatusOfCode;

export class TsdbError extends Error {
  override readonly name = 'TsdbError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }

  get httpStatus(): number {
    return httpStatusOfCode[this.code];
  }
}

/** Short for the most common one. Form: "cannot <do x>: <field> <reason>: <value>". */
export function badRequest(message: string, options?: ErrorOptions): TsdbError {
  return new TsdbError('BAD_REQUEST', message, options);
}

const shownLengthMax = 200;

/** Text of a request for a message: what is longer is cut. */
export function shownText(text: string): string {
  return text.length > shownLengthMax ? `${text.slice(0, shownLengthMax)}…` : text;
}

/** Longest text of an error in an answer; twenty bad rows, with their series, are below it. */
const answerTextMax = 10_000;

/** The message for an answer: whatever it quotes, it stays a text for people. */
export function answerTextOf(error: TsdbError): string {
  const { message } = error;
  const text = message.length > answerTextMax ? `${message.slice(0, answerTextMax)}…` : message;
  // Bytes that are no UTF-8 are halves of pairs in here.
  return text.toWellFormed();
}

/** The message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
