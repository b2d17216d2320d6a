/**
 * Operations of one transaction of the key-value store in the form in which etcd takes many. It
 * bounds the operations of a transaction (`--max-txn-ops`), and gives what is left of that bound to
 * each of the transactions inside it: so a large one is sent as several inside one, which is still done
 * as a whole or not at all.
 */
import { badRequest } from '#lib/errors.ts';

/** etcd's default. */
const flatOperationsMax = 128;

/** Half of the bound in groups, of as many operations each as the other half leaves. */
export const transactionOperationsMax: number = (flatOperationsMax / 2) ** 2;

/**
 * Operations that may stand in one transaction: a single group as they are, several as a transaction
 * each inside one.
 * @throws {TsdbError} BAD_REQUEST when there are too many for any form
 */
export function transactionGroups<T>(operations: readonly T[]): readonly (readonly T[])[] {
  const { length } = operations;
  checkOperations(operations);
  if (length <= flatOperationsMax) return [operations];
  let groupCount = 2;
  while (groupCount * (flatOperationsMax - groupCount) < length) groupCount += 1;
  const perGroup = flatOperationsMax - groupCount;
  return Array.from({ length: groupCount }, (_, i) =>
    operations.slice(i * perGroup, (i + 1) * perGroup),
  ).filter((group) => group.length > 0);
}

/** @throws {TsdbError} BAD_REQUEST when no adapter takes so many */
export function checkOperations({ length }: readonly unknown[]): void {
  if (length <= transactionOperationsMax) return;
  throw badRequest(
    `cannot do transaction: more than ${transactionOperationsMax} operations: ${length}`,
  );
}
