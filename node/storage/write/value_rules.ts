/**
 * What values a namespace takes: floats and histograms without a schema, messages of its schemas with one. Replay,
 * peers and repair take what was accepted once.
 */
import { type Schemas, schemasOf } from '#cluster/namespaces/schemas.ts';
import { rowOutcome } from '#cluster/node/service.ts';
import { isMessageOf } from '#engine/messages/conformity.ts';
import type { RowsOfKind } from '#engine/store/rows.ts';
import { valueKind, valueLayout } from '#engine/typed/typed_value.ts';
import type { NamespaceState } from '../namespace/namespace.ts';

/** The number of the schema that was deployed last, or reset; 0 of a namespace that had none. */
export function newestSchemaOf({ definition }: Pick<NamespaceState, 'definition'>): number {
  return definition.schemas?.at(-1)?.number ?? 0;
}

/** The highest number of a schema that rows are of, 0 when they are no messages. */
export function newestSchemaIn({ kind, rows }: RowsOfKind): number {
  if (kind === 'float') return 0;
  const { rowCount, valueBytes, valueEnds } = rows;
  let newest = 0;
  for (let row = 0, at = 0; row < rowCount; at = valueEnds[row]!, row += 1) {
    if (valueBytes[at] !== valueKind.message) continue;
    const layout = valueLayout(valueBytes, at, valueEnds[row]!);
    if (layout > newest) newest = layout;
  }
  return newest;
}

/**
 * Refuses rows that are of another schema, or of none.
 * @param outcomes of the rows; those that are refused already stay so
 * @returns how many are refused now
 */
export function refuseOtherValues(
  { kind, rows }: RowsOfKind,
  { definition }: Pick<NamespaceState, 'definition'>,
  outcomes: Uint8Array,
): number {
  const schemas = schemasOf(definition);
  if (schemas === null && kind === 'float') return 0;
  let refused = 0;
  for (let row = 0, at = 0; row < rows.rowCount; row += 1) {
    const past = kind === 'float' ? 0 : rows.valueEnds[row]!;
    if (outcomes[row] === rowOutcome.written) {
      const outcome =
        kind === 'float'
          ? rowOutcome.otherSchema
          : outcomeOfValue(rows.valueBytes, at, past, schemas);
      if (outcome !== rowOutcome.written) {
        outcomes[row] = outcome;
        refused += 1;
      }
    }
    at = past;
  }
  return refused;
}

/** @param at where the value begins, which is canonical */
function outcomeOfValue(
  bytes: Uint8Array,
  at: number,
  past: number,
  schemas: Schemas | null,
): number {
  const isMessage = bytes[at] === valueKind.message;
  if (schemas === null) return isMessage ? rowOutcome.otherSchema : rowOutcome.written;
  if (!isMessage) return rowOutcome.otherSchema;
  const type = schemas.typeOf(valueLayout(bytes, at, past));
  if (type === null) return rowOutcome.otherSchema;
  return isMessageOf(type, bytes, at, past) ? rowOutcome.written : rowOutcome.badValue;
}
