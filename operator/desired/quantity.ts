/**
 * Quantities of the Kubernetes API, which writes '1024Mi' back as '1Gi': compared by what they are
 * worth.
 */
import { badRequest } from '#lib/errors.ts';

const worthOf: Readonly<Record<string, number>> = {
  n: 1e-9,
  u: 1e-6,
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** @throws {TsdbError} BAD_REQUEST */
export function quantityOf(text: string): number {
  const match = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)(n|u|m|k|[MGTPE]|[KMGTPE]i)?$/.exec(text);
  const value = Number(match?.[1]);
  if (match === null || !Number.isFinite(value)) throw badRequest(`not a quantity: ${text}`);
  return value * worthOf[match[2] ?? '']!;
}
