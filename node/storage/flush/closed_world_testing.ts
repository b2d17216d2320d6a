/** A namespace of windows with series that are old, and others that are young. */
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { realEnv } from '#lib/env/real.ts';
import { day, hour, minute, rowsOf, World } from '../aggregation/aggregation_testing.ts';
import { never } from '../database_testing.ts';
import type { BlockFile } from '../filesets/block_file.ts';
import type { NamespaceState } from '../namespace/namespace.ts';
import { expireNamespace } from '../retention/series_removal.ts';

/** So long ago that windows of it are closed. */
export const old: bigint = day - 20n * 24n * hour;
export const rawRetention: { readonly retentionPeriodNanos: bigint } = {
  retentionPeriodNanos: 719n * hour,
};
export const range: { readonly startNanos: bigint; readonly endNanos: bigint } = {
  startNanos: 0n,
  endNanos: 2n ** 62n,
};

/** 40 series of old rows, one of young ones, and one of both. */
export async function openWorld(): Promise<World> {
  const world = await World.open(5n * minute, { rawRetention });
  for (let host = 0; host < 40; host++) await world.write(rowsOf(`old-${host}`, old, 240));
  await world.write(rowsOf('always', old, 240));
  await world.write(rowsOf('always', day, 240));
  await world.write(rowsOf('young', day, 240));
  await world.flush();
  await world.run();
  return world;
}

/** As the node does now and then. */
export async function settle({ database }: World): Promise<void> {
  await database.flusher.runDue(never);
  const coarse = database.namespaces.get('coarse')!;
  // One that had a row since the last time may have another one on its way.
  for (let time = 0; time < 2; time++) {
    await expireNamespace(database, coarse, realEnv.clock.nowNanos());
  }
}

export const coarseOf = ({ database }: World): NamespaceState => database.namespaces.get('coarse')!;

export const closedOf = (world: World): BlockFile[] =>
  coarseOf(world)
    .files.all(null)
    .filter(({ isClosed }) => isClosed);

/** Files of columns of all closed filesets. */
export const columnsPathsOf = (world: World): string[] =>
  closedOf(world).flatMap(({ folder }) =>
    readdirSync(folder)
      .filter((name) => name.endsWith('-columns.db'))
      .map((name) => join(folder, name)),
  );
