/**
 * A third of 14.4 million rows moves to a new node, as a whole and with kills of the taker.
 *
 *     node test/load/shard_move_run.ts [--kills 5] [--shards 64] [--interval SECONDS] [--folder FOLDER]
 */
import { rmSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { toolOrSkip } from '../tools.ts';
import { freshFolder } from './folder.ts';
import { shardMoves } from './shard_move.ts';

const { values } = parseArgs({
  options: {
    kills: { type: 'string', default: '5' },
    shards: { type: 'string', default: '64' },
    series: { type: 'string', default: '10000' },
    rows: { type: 'string', default: '1440' },
    interval: { type: 'string', default: '60' },
    block: { type: 'string', default: '7200' },
    folder: { type: 'string' },
    checkout: { type: 'string' },
  },
});
const etcdBinary = toolOrSkip('etcd', 'no move is measured');
if (etcdBinary !== null) {
  const folder = freshFolder('shard-move', values.folder);
  const seriesCount = Number(values.series);
  const rowsPerSeries = Number(values.rows);
  const moves = await shardMoves(
    {
      folder,
      etcdBinary,
      shards: Number(values.shards),
      seriesCount,
      rowsPerSeries,
      intervalSeconds: Number(values.interval),
      blockSeconds: Number(values.block),
      kills: Number(values.kills),
      ...(values.checkout === undefined ? {} : { checkout: values.checkout }),
    },
    console.log,
  );
  const millions = (seriesCount * rowsPerSeries) / 3 / 1e6;
  for (const move of moves) {
    console.log(JSON.stringify(move));
    const { takerCpuSeconds, giverCpuSeconds, wireBytes, chunkBytes } = move;
    console.log(
      `${move.kills} kills: ${move.seconds.toFixed(1)} s; CPU s a million rows: taker ${(takerCpuSeconds / millions).toFixed(3)}, giver ${(giverCpuSeconds / millions).toFixed(3)}; ` +
        `${(wireBytes / chunkBytes).toFixed(2)} bytes on the wire for each of chunks; in memory at most: taker ${(move.takerBytesMax / 1e6).toFixed(0)} MB, giver ${(move.giverBytesMax / 1e6).toFixed(0)} MB`,
    );
  }
  const [whole, killed] = moves as [(typeof moves)[0], (typeof moves)[0]];
  const twice = (killed.wireBytes - whole.wireBytes) / whole.wireBytes;
  console.log(`fetched twice with ${killed.kills} kills: ${(100 * twice).toFixed(1)} %`);
  rmSync(folder, { recursive: true, force: true });
}
