/**
 * Seconds from a start to the first right answer, by how the process before it ended; one JSON line
 * a start.
 *
 *     node test/load/recovery.ts [--series 10000] [--rows 1440] [--runs 3]
 */
import { parseArgs } from 'node:util';
import { recoveries } from './recovery_bench.ts';

const { values } = parseArgs({
  options: {
    series: { type: 'string', default: '10000' },
    rows: { type: 'string', default: '1440' },
    runs: { type: 'string', default: '3' },
  },
});
const shape = { seriesCount: Number(values.series), rowsPerSeries: Number(values.rows) };
for (const recovery of await recoveries(shape, Number(values.runs))) {
  console.log(JSON.stringify({ ...shape, ...recovery }));
}
