/**
 * Who this node is over its restarts, as its data folder says it: an incarnation, made with the
 * folder, and a counter of its boots.
 */
import type { Env } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import { makeDurableFolder } from '../persist/folders.ts';

export interface NodeIdentity {
  /** 32 hexadecimal digits, made with the data folder. */
  readonly incarnation: string;
  /** Counts the starts on this folder, from 1. */
  readonly boot: number;
}

/** Of the file and of the key: with what a later version keeps there, which stays. */
export interface StoredIdentity extends NodeIdentity {
  readonly others: Readonly<Record<string, unknown>>;
}

export function referenceEpochOf(identity: NodeIdentity): string {
  return `${identity.incarnation}.${identity.boot}`;
}

export const identityFile = 'node_identity.json';

/**
 * Reads the identity of the data folder, making one when there is none, and counts this start.
 * @throws {TsdbError} INTERNAL when the file is there but unreadable: it is never replaced by guess
 */
export async function openIdentity(env: Env, dataFolder: string): Promise<NodeIdentity> {
  const path = `${dataFolder}/${identityFile}`;
  const parent = dataFolder.slice(0, dataFolder.lastIndexOf('/'));
  if (parent === '') await env.disk.makeFolder(dataFolder);
  else await makeDurableFolder(env.disk, parent, dataFolder);
  let before: StoredIdentity;
  if ((await env.disk.size(path)) === null) {
    before = { incarnation: env.random.bytes(16).toHex(), boot: 0, others: {} };
  } else {
    try {
      before = decodeIdentity(await env.disk.readFile(path));
    } catch (error) {
      throw new TsdbError('INTERNAL', `cannot read ${path}: ${messageOf(error)}`, { cause: error });
    }
  }
  const identity = { incarnation: before.incarnation, boot: before.boot + 1 };
  await env.disk.writeFileAtomic(path, encodeIdentity(identity, before.others));
  return identity;
}

export function encodeIdentity(
  identity: NodeIdentity,
  others: StoredIdentity['others'],
): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify({ ...identity, ...others })}\n`);
}

/** @throws {Error} that names the field */
export function decodeIdentity(bytes: Uint8Array): StoredIdentity {
  const plain = JSON.parse(new TextDecoder().decode(bytes)) as Partial<NodeIdentity>;
  const { incarnation, boot, ...others } = plain;
  if (typeof incarnation !== 'string' || !/^[0-9a-f]{32}$/.test(incarnation)) {
    throw new Error(`incarnation is not 32 hexadecimal digits: ${String(incarnation)}`);
  }
  if (typeof boot !== 'number' || !Number.isSafeInteger(boot) || boot < 0) {
    throw new Error(`boot is not a whole number: ${String(boot)}`);
  }
  return { incarnation, boot, others };
}
