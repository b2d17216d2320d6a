/**
 * The core against an obvious twin. The twin keeps the whole store at every revision as a map and
 * answers from that; it knows no history lists, logs or indexes. Also from time to time the core is
 * thrown away and rebuilt from what it asked to be stored, as after a crash.
 */
import { isDeepStrictEqual } from 'node:util';
import { assert } from '#lib/assert.ts';
import { kvLimits } from './limits.ts';
import { Mvcc } from './mvcc.ts';
import {
  type Change,
  type Compare,
  KvError,
  type KeyRange,
  type OperationRequest,
  type RangeRequest,
  type StoredState,
  type TxnRequest,
  type Write,
} from './requests.ts';

interface TwinItem {
  readonly value: string;
  readonly createRevision: number;
  readonly modRevision: number;
  readonly version: number;
  readonly leaseId: bigint;
}

type TwinState = ReadonlyMap<string, TwinItem>;

/** The obvious store: a copy of everything for each revision. */
class Twin {
  readonly states: TwinState[] = [new Map(), new Map()];
  readonly leases = new Set<bigint>();
  compactRevision = 0;

  get revision(): number {
    return this.states.length - 1;
  }

  get now(): TwinState {
    return this.states[this.revision]!;
  }

  commit(state: TwinState): void {
    if (!isDeepStrictEqual(state, this.now)) this.states.push(state);
  }
}

const inRange = (key: string, { key: start, rangeEnd: end }: KeyRange) =>
  end === '' ? key === start : key >= start && (end === '\0' || key < end);

const byBytes = (left: string, right: string) => (left < right ? -1 : left > right ? 1 : 0);

function keysOf(state: TwinState, range: KeyRange): string[] {
  return [...state.keys()].filter((key) => inRange(key, range)).sort(byBytes);
}

function holds(state: TwinState, compare: Compare): boolean {
  const test = (item: TwinItem | undefined): boolean => {
    const { target } = compare;
    let order: number;
    if (target.kind === 'value') {
      if (item === undefined) return false;
      order = byBytes(item.value, textOf(target.value));
    } else {
      const numbers = {
        version: BigInt(item?.version ?? 0),
        create: BigInt(item?.createRevision ?? 0),
        mod: BigInt(item?.modRevision ?? 0),
        lease: item?.leaseId ?? 0n,
      };
      const number = numbers[target.kind];
      order = number < target.number ? -1 : number > target.number ? 1 : 0;
    }
    const results = {
      equal: order === 0,
      greater: order > 0,
      less: order < 0,
      notEqual: order !== 0,
    };
    return results[compare.result];
  };
  const keys = keysOf(state, compare);
  return keys.length === 0 ? test(undefined) : keys.every((key) => test(state.get(key)));
}

/** The twin's answer to a range, in a form both sides can be brought to. */
function twinRange(twin: Twin, seen: TwinState, request: RangeRequest): unknown {
  if (request.revision > twin.revision) return 'futureRevision';
  if (request.revision > 0 && request.revision < twin.compactRevision) return 'compacted';
  const state = request.revision > 0 ? twin.states[request.revision]! : seen;
  const all = keysOf(state, request);
  if (request.countOnly) return { count: all.length, more: false, items: [] };
  const items = all
    .map((key) => ({ key, ...state.get(key)! }))
    .filter(
      (item) =>
        (!request.minModRevision || item.modRevision >= request.minModRevision) &&
        (!request.maxCreateRevision || item.createRevision <= request.maxCreateRevision),
    );
  const by = (item: (typeof items)[number]) =>
    ({
      key: item.key,
      version: item.version,
      create: item.createRevision,
      mod: item.modRevision,
      value: item.value,
    })[request.sortTarget];
  if (request.sortOrder !== 'none' || request.sortTarget !== 'key') {
    const sign = request.sortOrder === 'descend' ? -1 : 1;
    items.sort((left, right) => (by(left) < by(right) ? -sign : by(left) > by(right) ? sign : 0));
  }
  const cut = request.limit > 0 ? items.slice(0, request.limit) : items;
  const shown = request.keysOnly ? cut.map((item) => ({ ...item, value: '' })) : cut;
  return { count: all.length, more: cut.length < items.length, items: shown };
}

/** Performs the operations on a copy of the state. */
function twinOperations(
  twin: Twin,
  state: Map<string, TwinItem>,
  operations: readonly OperationRequest[],
): unknown[] {
  const revision = twin.revision + 1;
  return operations.map((operation) => {
    switch (operation.kind) {
      case 'range':
        return twinRange(twin, state, operation);
      case 'put': {
        const before = state.get(operation.key);
        state.set(operation.key, {
          value: operation.ignoreValue ? before!.value : textOf(operation.value),
          createRevision: before?.createRevision ?? revision,
          modRevision: revision,
          version: (before?.version ?? 0) + 1,
          leaseId: operation.ignoreLease ? before!.leaseId : operation.leaseId,
        });
        return operation.previous && before ? { key: operation.key, ...before } : null;
      }
      case 'deleteRange': {
        const keys = keysOf(state, operation);
        const previous = keys.map((key) => ({ key, ...state.get(key)! }));
        for (const key of keys) state.delete(key);
        return { deleted: keys.length, previous: operation.previous ? previous : [] };
      }
      case 'txn':
        return twinBranch(twin, state, operation);
    }
  });
}

/** Which branch is taken is decided by the state before the whole transaction, nested ones too. */
function twinBranch(twin: Twin, state: Map<string, TwinItem>, request: TxnRequest): unknown {
  const succeeded = request.compares.every((compare) => holds(twin.now, compare));
  const operations = succeeded ? request.success : request.failure;
  return { succeeded, answers: twinOperations(twin, state, operations) };
}

/** The first reason for which the store must refuse operations that will be done, or null. */
function twinRefusal(twin: Twin, operations: readonly OperationRequest[]): string | null {
  for (const operation of operations) {
    if (operation.kind === 'txn') {
      const succeeded = operation.compares.every((compare) => holds(twin.now, compare));
      const refusal = twinRefusal(twin, succeeded ? operation.success : operation.failure);
      if (refusal !== null) return refusal;
    } else if (operation.kind === 'range') {
      const answer = twinRange(twin, twin.now, operation);
      if (typeof answer === 'string') return answer;
    } else if (operation.kind === 'put') {
      const missing = !twin.now.has(operation.key);
      if ((operation.ignoreValue || operation.ignoreLease) && missing) return 'keyNotFound';
      if (operation.leaseId !== 0n && !twin.leases.has(operation.leaseId)) return 'leaseNotFound';
    }
  }
  return null;
}

/** Keys that some run of the operations may put or delete, one entry a time. */
function clashes(operations: readonly OperationRequest[]): boolean {
  const runs = (list: readonly OperationRequest[]): OperationRequest[][] =>
    list.reduce<OperationRequest[][]>(
      (sofar, operation) => {
        const tails =
          operation.kind === 'txn'
            ? [...runs(operation.success), ...runs(operation.failure)]
            : [[operation]];
        return sofar.flatMap((run) => tails.map((tail) => [...run, ...tail]));
      },
      [[]],
    );
  return runs(operations).some((run) =>
    run.some(
      (put, index) =>
        put.kind === 'put' &&
        run.some(
          (other, at) =>
            at !== index &&
            ((other.kind === 'put' && other.key === put.key) ||
              (other.kind === 'deleteRange' && inRange(put.key, other))),
        ),
    ),
  );
}

function textOf(value: Uint8Array): string {
  return Buffer.from(value).toString('latin1');
}

function plainItem(change: Change): unknown {
  const { key, value, createRevision, modRevision, version, leaseId } = change;
  return { key, value: textOf(value!), createRevision, modRevision, version, leaseId };
}

/** An answer of the core in the twin's form. */
function plain(answer: ReturnType<Mvcc['txn']>['answers'][number]): unknown {
  switch (answer.kind) {
    case 'range':
      return { count: answer.count, more: answer.more, items: answer.items.map(plainItem) };
    case 'put':
      return answer.previous === null ? null : plainItem(answer.previous);
    case 'deleteRange':
      return { deleted: answer.deleted, previous: answer.previous.map(plainItem) };
    case 'txn':
      return { succeeded: answer.succeeded, answers: answer.answers.map(plain) };
  }
}

/** What the disk would hold after the writes. */
class Disk {
  #changes: Change[] = [];
  readonly #leases = new Map<bigint, number>();
  #compactRevision = 0;

  apply(writes: readonly Write[]): void {
    for (const write of writes) {
      switch (write.kind) {
        case 'change':
          this.#changes.push(write.change);
          break;
        case 'compact':
          this.#compactRevision = write.revision;
          break;
        case 'drop': {
          const dropped = new Set(
            write.dropped.map((change) => `${change.modRevision} ${change.sub}`),
          );
          const count = this.#changes.length;
          this.#changes = this.#changes.filter(
            (change) => !dropped.has(`${change.modRevision} ${change.sub}`),
          );
          assert(count - this.#changes.length === dropped.size, 'every dropped change was stored');
          break;
        }
        case 'lease':
          this.#leases.set(write.id, write.ttlSeconds);
          break;
        case 'leaseGone':
          this.#leases.delete(write.id);
          break;
      }
    }
  }

  state(revision: number): StoredState {
    const leases = [...this.#leases].map(([id, ttlSeconds]) => ({ id, ttlSeconds }));
    const changes = this.#changes;
    const compactRevision = this.#compactRevision;
    return { revision, compactRevision, changes: [...changes], leases };
  }
}

/** xorshift32: every choice of a run comes from its seed. */
class Choices {
  #state: number;

  constructor(seed: number) {
    this.#state = (Math.imul(seed, 0x9e3779b1) ^ 0x5bd1e995) | 1;
  }

  below(count: number): number {
    this.#state ^= this.#state << 13;
    this.#state ^= this.#state >>> 17;
    this.#state ^= this.#state << 5;
    return (this.#state >>> 0) % count;
  }

  of<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)]!;
  }

  chance(oneIn: number): boolean {
    return this.below(oneIn) === 0;
  }
}

class Generator {
  readonly #choices: Choices;
  readonly #twin: Twin;

  constructor(choices: Choices, twin: Twin) {
    this.#choices = choices;
    this.#twin = twin;
  }

  #key(): string {
    return this.#choices.of(['a', 'aa', 'ab', 'b', 'b\xff', 'c', '\0', '\xff\xff', 'd']);
  }

  #span(): KeyRange {
    return {
      key: this.#key(),
      rangeEnd: this.#choices.of(['', '', '\0', 'b', 'c', 'ab', 'd', '\xff\xff\xff']),
    };
  }

  #lease(): bigint {
    const known = [0n, 0n, 0n, ...this.#twin.leases];
    return this.#choices.chance(12) ? 99n : this.#choices.of(known);
  }

  range(): RangeRequest {
    const choices = this.#choices;
    const twin = this.#twin;
    return {
      kind: 'range',
      ...this.#span(),
      limit: choices.below(4),
      revision: choices.chance(2) ? 0 : choices.below(twin.revision + 2),
      sortOrder: choices.of(['none', 'none', 'ascend', 'descend']),
      sortTarget: choices.of(['key', 'key', 'version', 'create', 'mod', 'value']),
      keysOnly: choices.chance(5),
      countOnly: choices.chance(5),
      minModRevision: choices.chance(5) ? choices.below(twin.revision) : 0,
      maxModRevision: 0,
      minCreateRevision: 0,
      maxCreateRevision: choices.chance(5) ? choices.below(twin.revision) : 0,
    };
  }

  #operation(depth: number): OperationRequest {
    const choices = this.#choices;
    const pick = choices.below(depth > 0 ? 10 : 9);
    if (pick < 2) return this.range();
    if (pick < 7) {
      const ignoreValue = choices.chance(8);
      const ignoreLease = choices.chance(8);
      return {
        kind: 'put',
        key: this.#key(),
        value: ignoreValue ? new Uint8Array(0) : Uint8Array.of(choices.below(4), 7),
        leaseId: ignoreLease ? 0n : this.#lease(),
        previous: choices.chance(2),
        ignoreValue,
        ignoreLease,
      };
    }
    if (pick < 9) return { kind: 'deleteRange', ...this.#span(), previous: choices.chance(2) };
    return this.txn(depth - 1);
  }

  txn(depth: number): TxnRequest {
    const choices = this.#choices;
    const twin = this.#twin;
    const list = <Item>(countMax: number, make: () => Item) =>
      Array.from({ length: choices.below(countMax + 1) }, make);
    const compare = (): Compare => {
      const kind = choices.of(['version', 'create', 'mod', 'lease', 'value'] as const);
      return {
        ...this.#span(),
        result: choices.of(['equal', 'greater', 'less', 'notEqual']),
        target:
          kind === 'value'
            ? { kind, value: Uint8Array.of(choices.below(4), 7) }
            : { kind, number: BigInt(choices.below(kind === 'version' ? 3 : twin.revision + 1)) },
      };
    };
    return {
      kind: 'txn',
      compares: list(2, compare),
      success: list(3, () => this.#operation(depth)),
      failure: list(2, () => this.#operation(depth)),
    };
  }
}

/** Runs `size` requests on both and compares every answer, and at the end all of history. */
export function fuzz(seed: number, size: number): void {
  const choices = new Choices(seed);
  const twin = new Twin();
  const disk = new Disk();
  const generator = new Generator(choices, twin);
  let core = new Mvcc();
  for (let step = 0; step < size; step += 1) {
    const where = `seed ${seed}, step ${step}`;
    const pick = choices.below(20);
    if (pick < 2) leaseStep(core, twin, choices, where);
    else if (pick === 2) compactStep(core, twin, choices, where);
    else if (pick < 6) {
      const request = generator.range();
      same(
        attempt(() => plain(core.range(request))),
        twinRange(twin, twin.now, request),
        where,
      );
    } else {
      const request = generator.txn(2);
      same(
        attempt(() => plain(core.txn(request))),
        twinTxn(twin, request),
        where,
      );
    }
    same(core.revision, twin.revision, `${where}: revision`);
    // Reads, changes, compactions and crashes come between two parts.
    if (core.isDropping && choices.chance(2)) core.dropPart(1 + choices.below(3));
    disk.apply(core.takeWrites());
    if (choices.chance(25)) core = new Mvcc(disk.state(core.revision));
  }
  checkHistory(core, twin, `seed ${seed}`);
  while (core.isDropping) core.dropPart(2);
  disk.apply(core.takeWrites());
  checkHistory(core, twin, `seed ${seed}, all dropped`);
  checkDropped(disk.state(core.revision), core, `seed ${seed}`);
}

function twinTxn(twin: Twin, request: TxnRequest): unknown {
  if (clashes(request.success) || clashes(request.failure)) return 'duplicateKey';
  const refusal = twinRefusal(twin, [request]);
  if (refusal !== null) return refusal;
  const state = new Map(twin.now);
  const answer = twinBranch(twin, state, request);
  twin.commit(state);
  return answer;
}

function leaseStep(core: Mvcc, twin: Twin, choices: Choices, where: string): void {
  const id = BigInt(1 + choices.below(5));
  if (choices.chance(2)) {
    const got = attempt(() => core.leaseGrant(id, 10, 0));
    same(got, twin.leases.has(id) ? 'leaseExists' : 10, where);
    twin.leases.add(id);
    return;
  }
  const held = [...twin.now].filter(([, item]) => item.leaseId === id).map(([key]) => key);
  same(core.leaseKeys(id).sort(byBytes), held.sort(byBytes), where);
  const got = attempt(() => core.leaseRevoke(id));
  same(got, twin.leases.has(id) ? undefined : 'leaseNotFound', where);
  twin.leases.delete(id);
  twin.commit(new Map([...twin.now].filter(([, item]) => item.leaseId !== id)));
}

function compactStep(core: Mvcc, twin: Twin, choices: Choices, where: string): void {
  const revision = choices.below(twin.revision + 2);
  const got = attempt(() => core.compact(revision));
  if (revision <= twin.compactRevision) same(got, 'compacted', where);
  else if (revision > twin.revision) same(got, 'futureRevision', where);
  else {
    same(got, undefined, where);
    twin.compactRevision = revision;
  }
}

/** The log that watches read must tell the difference between any two neighbouring states. */
function checkHistory(core: Mvcc, twin: Twin, where: string): void {
  const first = Math.max(2, twin.compactRevision);
  const { changes } = core.history(first, core.revision, Number.POSITIVE_INFINITY, () => true);
  for (let revision = first; revision <= twin.revision; revision += 1) {
    const [before, after] = [twin.states[revision - 1]!, twin.states[revision]!];
    const expected = [...new Set([...before.keys(), ...after.keys()])]
      .filter((key) => before.get(key) !== after.get(key))
      .sort(byBytes)
      .map((key) => (after.has(key) ? { key, ...after.get(key)! } : { key, gone: revision }));
    const got = changes
      .filter((change) => change.modRevision === revision)
      .sort((left, right) => byBytes(left.key, right.key))
      .map((change) =>
        change.value === null ? { key: change.key, gone: change.modRevision } : plainItem(change),
      );
    same(got, expected, `${where}: history of revision ${revision}`);
  }
  for (const { key, modRevision } of changes) {
    const item = modRevision > twin.compactRevision && twin.states[modRevision - 1]!.get(key);
    const before = core.before(key, modRevision);
    const got = before === null ? null : plainItem(before);
    same(got, item ? { key, ...item } : null, `${where}: before ${modRevision}`);
  }
}

const bytesOf = ({ key, value }: Change): number =>
  key.length + (value?.length ?? 0) + kvLimits.changeOverheadBytes;

/** Of what nobody can see nothing is left. */
function checkDropped({ changes, compactRevision }: StoredState, core: Mvcc, where: string): void {
  for (const [key, history] of Map.groupBy(changes, (change) => change.key)) {
    const past = history.filter(({ modRevision }) => modRevision <= compactRevision);
    const isSeen = (change: Change) =>
      change.value !== null || change.modRevision === compactRevision;
    same(past.length > 1 || !past.every(isSeen), false, `${where}: left of ${key}`);
  }
  same(core.keyCount, new Set(changes.map(({ key }) => key)).size, `${where}: keys`);
  const bytes = changes.reduce((sum, change) => sum + bytesOf(change), 0);
  same(core.storedBytes, bytes, `${where}: bytes`);
}

function attempt(task: () => unknown): unknown {
  try {
    return task();
  } catch (error) {
    if (error instanceof KvError) return error.kind;
    throw error;
  }
}

function same(got: unknown, expected: unknown, where: string): void {
  if (isDeepStrictEqual(got, expected)) return;
  const show = (value: unknown) =>
    JSON.stringify(value, (_, field: unknown) => (typeof field === 'bigint' ? `${field}n` : field));
  throw new Error(`${where}: got ${show(got)}, expected ${show(expected)}`);
}
