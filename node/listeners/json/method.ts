/** What a method of the JSON listeners is. */
import type { Delivery } from '#lib/read_memory/delivery.ts';
import type { JsonBackend } from './backend.ts';
import type { JsonFields } from './fields.ts';

export type JsonAnswer = string | Iterable<Uint8Array>;

export type JsonMethod =
  | {
      readonly verb: 'POST';
      /** Fields may stand in the query too, and the body may be empty. */
      readonly takesQuery?: boolean;
      readonly call: (
        backend: JsonBackend,
        fields: JsonFields,
        signal: AbortSignal,
        delivery: Delivery,
      ) => Promise<JsonAnswer>;
    }
  | {
      readonly verb: 'GET';
      /** It changes something or costs much: no web page of another site may ask. */
      readonly isCostly?: boolean;
      readonly call: (backend: JsonBackend, signal: AbortSignal) => Promise<JsonAnswer>;
    };
