/**
 * What Graphite's functions cost here and elsewhere: a day of many series comes by Carbon's lines, and the same targets are asked
 * of the single node, of carbonapi and of graphite-web in turns. CPU is of the one process that evaluates; ours also reads its
 * storage in it, what the others' storage takes does not count. Where others answer something else the line of the target says so.
 *
 *     node test/load/render_run.ts [--carbonapi PATH] [--graphite-web PYTHON] [--series 1000] [--asks 9] [--compressed]
 */
import { rmSync } from 'node:fs';
import { connect } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { SeededNumbers } from '#engine/codec/samples_testing.ts';
import { toolOptions } from '../command_line.ts';
import { eventually } from '../integration/process.ts';
import { freshFolder } from './folder.ts';
import { medianOf } from './median.ts';
import { ProcessUsage } from './process_usage.ts';
import { type Answer, difference } from './render/answers.ts';
import {
  type Evaluator,
  startCarbonapi,
  startGraphiteWeb,
  startStorage,
  type SystemName,
} from './render/systems.ts';

const values = toolOptions(
  `node test/load/render_run.ts [options]: what Graphite's functions cost here and elsewhere
  --carbonapi PATH          its binary; without it it is not asked
  --graphite-web PYTHON     which has graphite-web; without it it is not asked
  --series N                1000 when not given
  --asks N                  of each target and system; 9 when not given
  --compressed              answers are asked for with gzip, which graphite-web has not`,
  {
    carbonapi: { type: 'string' },
    'graphite-web': { type: 'string' },
    series: { type: 'string', default: '1000' },
    asks: { type: 'string', default: '9' },
    compressed: { type: 'boolean', default: false },
  },
);
const [seriesCount, asks] = [Number(values.series), Number(values.asks)];
const stepSeconds = 60;
const rowCount = 24 * 60;
const endSeconds = Math.floor(Date.now() / 1_000 / stepSeconds) * stepSeconds;
const all = 'servers.*.*.cpu';
const targets = [
  `movingAverage(${all},'5min')`,
  `summarize(${all},'1h','avg')`,
  `groupByNode(${all},1,'averageSeries')`,
  `aliasByNode(${all},1,2)`,
  `percentileOfSeries(${all},95)`,
] as const;

const folder = freshFolder('render');
process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => process.exit(1));

const { server, carbonPort } = await startStorage(join(folder, 'storage'));
await load(carbonPort);
const evaluators = new Map<SystemName, Evaluator>([
  ['tsdb', { program: server.program, renderUrl: `${server.url}/render` }],
]);
const { carbonapi, 'graphite-web': python } = values;
if (carbonapi !== undefined) {
  evaluators.set(
    'carbonapi',
    await startCarbonapi(join(folder, 'carbonapi'), carbonapi, server.url),
  );
}
if (python !== undefined) {
  evaluators.set('graphite-web', await startGraphiteWeb(join(folder, 'web'), python, server.url));
}
await eventually('all rows are read', async () => {
  const answer = await ask(evaluators.get('tsdb')!, all);
  const rows = answer.flatMap(({ datapoints }) => datapoints.filter(([value]) => value !== null));
  return rows.length === seriesCount * rowCount;
});
for (const target of targets) {
  const taken = new Map<SystemName, number[]>([...evaluators.keys()].map((name) => [name, []]));
  const answers = new Map<SystemName, Answer>();
  for (let round = 0; round < asks; round++) {
    for (const [name, evaluator] of evaluators) {
      const before = cpuMillis(evaluator);
      answers.set(name, await ask(evaluator, target));
      taken.get(name)!.push(cpuMillis(evaluator) - before);
    }
  }
  const ours = answers.get('tsdb')!;
  const cells: string[] = [];
  for (const [name, millis] of taken) {
    cells.push(`${name} ${medianOf(millis).toFixed(0)} ms`);
    const theirs = answers.get(name)!;
    const problem = difference(ours, theirs, 0);
    if (problem === null) continue;
    // Windows of graphite-web 1.1.8 end before their time, those of later releases with it.
    const isLater = difference(ours, theirs, stepSeconds) === null;
    cells.push(isLater ? '(the same a step later)' : `(answers something else: ${problem})`);
  }
  console.log(`${target}: ${ours.length} series; ${cells.join('; ')}`);
}
for (const { program } of evaluators.values()) await program.stop('SIGKILL');
process.exit();

/** The last row is a step before the end. */
async function load(port: number): Promise<void> {
  const numbers = new SeededNumbers(1);
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  socket.resume();
  for (let row = 0; row < rowCount; row++) {
    const seconds = endSeconds - (rowCount - row) * stepSeconds;
    let text = '';
    for (let i = 0; i < seriesCount; i++) {
      const path = `servers.dc${i % 10}.host${Math.floor(i / 10)}.cpu`;
      text += `${path} ${numbers.below(10_000) / 100} ${seconds}\n`;
    }
    if (!socket.write(text)) await once(socket, 'drain');
  }
  socket.end();
  await once(socket, 'close');
}

async function ask({ renderUrl }: Evaluator, target: string): Promise<Answer> {
  const parameters = new URLSearchParams({
    target,
    from: String(endSeconds - rowCount * stepSeconds - 1),
    until: String(endSeconds - 1),
    format: 'json',
    noCache: '1',
  });
  const headers = { 'accept-encoding': values.compressed ? 'gzip' : 'identity' };
  const response = await fetch(`${renderUrl}?${parameters}`, { headers });
  const text = await response.text();
  if (!response.ok) throw new Error(`${renderUrl}: ${response.status} ${text.slice(0, 500)}`);
  return JSON.parse(text) as Answer;
}

function cpuMillis({ program }: Evaluator): number {
  const usage = new ProcessUsage();
  usage.look('evaluator', program.pid);
  return usage.all().get('evaluator')!.cpuSeconds * 1_000;
}
