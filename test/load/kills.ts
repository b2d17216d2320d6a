/**
 * Real kills at random moments of ingest, flush, snapshot, cleanup and merge, on a real disk.
 *
 *     node test/load/kills.ts [--kills 200] [--folder FOLDER]
 */
import { rmSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { killAgainAndAgain } from '#node/storage/crash/kills_testing.ts';
import { freshFolder } from './folder.ts';

const { values } = parseArgs({
  options: { kills: { type: 'string', default: '200' }, folder: { type: 'string' } },
});
const kills = Number(values.kills);
/** The folder begins anew now and then, so that what is checked does not grow without end. */
const killsAtOnce = 20;
let done = 0;
while (done < kills) {
  const folder = freshFolder('kills', values.folder);
  const counts = Array.from({ length: Math.min(killsAtOnce, kills - done) }, () =>
    Math.floor(10 + Math.random() * 400),
  );
  await killAgainAndAgain(folder, counts, (kill, writes) => {
    console.log(`${done + kill} kills: ${writes} writes are all there`);
  });
  rmSync(folder, { recursive: true });
  done += counts.length;
}
console.log(`ok: ${done} kills`);
