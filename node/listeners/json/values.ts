/** Values of rows in requests: floats, or messages of the schema of their namespace. */
import type { Schemas } from '#cluster/namespaces/schemas.ts';
import { MessageEncoder } from '#engine/messages/canonical.ts';
import { wireFromJson } from '#engine/messages/json.ts';
import { badRequest, TsdbError } from '#lib/errors.ts';
import type { JsonBackend } from './backend.ts';
import type { DatapointValue } from './requests.ts';

const encoder = new MessageEncoder();

/**
 * @returns a float, or a typed value
 * @throws {TsdbError} BAD_REQUEST that names the path of the field
 */
export async function valueOf(
  backend: JsonBackend,
  namespace: string,
  value: DatapointValue,
  signal: AbortSignal,
): Promise<number | Uint8Array> {
  try {
    return valueBy(backend.schemas(namespace), namespace, value);
  } catch (error) {
    if (!(error instanceof TsdbError)) throw error;
    // A schema may have been deployed, or reset, a moment ago.
    await backend.renewSchemas(signal);
    return valueBy(backend.schemas(namespace), namespace, value);
  }
}

function valueBy(
  schemas: Schemas | null,
  namespace: string,
  value: DatapointValue,
): number | Uint8Array {
  const isNumber = 'float' in value;
  if (isNumber && schemas === null) return value.float;
  if (isNumber && !value.hasAnnotation) {
    throw badRequest(
      `cannot write: datapoint.value: not an object, and namespace ${namespace} has a schema`,
    );
  }
  if (schemas === null) {
    const what = 'json' in value ? 'value: an object' : 'annotation: a message';
    throw badRequest(`cannot write: datapoint.${what}, and namespace ${namespace} has no schema`);
  }
  const { number, type } = schemas.current;
  if (isNumber) return encoder.encode(new Uint8Array(0), type, number);
  const wire = 'json' in value ? wireFromJson(value.json, type) : value.wire;
  return encoder.encode(wire, type, number);
}
