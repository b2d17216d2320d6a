/** Limits of the API that no configuration sets. */

/** Bodies of admin requests; what the key-value store takes of one is at most 1.5 MiB. */
export const adminBodyBytesMax: number = 4 << 20;

/** Elements and members in one: some 40,000 shards of a placement. */
export const adminValuesMax = 250_000;

/** Bodies of query forms: the longest query, with every character escaped. */
export const formBodyBytesMax: number = 8 << 20;

/** Parameters of a URL or a form. */
export const parametersMax = 1000;

/** Bodies of everything but writes that are held at the same time. */
export const otherBytesInFlightMax: number = 256 << 20;

/** A remote-read request, before and after it is decompressed. */
export const readBodyBytesMax: number = 4 << 20;

/** Longest text of a query. */
export const queryCharactersMax: number = 1 << 20;

/**
 * Steps of a range query, as in Prometheus: no screen shows more, and each costs memory in every
 * series.
 */
export const stepsMax = 11_000;

/** Longest deadline that a request may ask for, as in the reference system. */
export const timeoutMillisMax: number = 10 * 60_000;

/** Selectors in one request for labels or series. */
export const selectorsMax = 100;

/** Rows of each list of an answer about cardinality, unless and at most asked for. */
export const statisticsRowsDefault = 10;
export const statisticsRowsMax = 1000;

/** Bodies of JSON writes. */
export const jsonWriteBytesMax: number = 16 << 20;

/** Writes in one JSON request. */
export const jsonRowsMax = 100_000;

/** What `Retry-After` says, in seconds. */
export const retryAfterSeconds = 5;
