/**
 * Attacks on a real node for an hour, and what others notice of them.
 *
 *     node test/attacks/campaign_run.ts [--minutes 60] [--seed 1] [--only TEXT]… [--without-open]
 *         [--list] [--folder FOLDER] [--keep]
 *
 * SIGTERM ends it early, with its report. Exits with 1 when the marker or an acknowledged row is not
 * as written, when the process holds more memory than its limits allow or ends, or when the others
 * wait longer than is promised.
 */
import { rmSync } from 'node:fs';
import { toolOptions } from '../command_line.ts';
import { freshFolder } from '../load/folder.ts';
import { attacks } from './all.ts';
import { Arena } from './arena.ts';
import { runCampaign } from './campaign.ts';
import { openAttacks } from './open.ts';

const usage = `node test/attacks/campaign_run.ts [options]: strangers attack a real node, and others are measured
  --list          names of the attacks
  --only TEXT     those whose name contains it (repeatable); all when not given
  --without-open  not those that are known to hurt (open.txt)
  --minutes N     how long; 60 when not given
  --seed N        which attacks come together, and what they send; 1 when not given
  --folder FOLDER where data and log go
  --keep          they stay, as they do when something failed`;

async function main(): Promise<number> {
  const values = toolOptions(usage, {
    list: { type: 'boolean', default: false },
    only: { type: 'string', multiple: true, default: [] },
    'without-open': { type: 'boolean', default: false },
    minutes: { type: 'string', default: '60' },
    seed: { type: 'string', default: '1' },
    folder: { type: 'string' },
    keep: { type: 'boolean', default: false },
  });
  const open = openAttacks();
  const named = attacks.filter(
    ({ name }) =>
      (values.only.length === 0 || values.only.some((text) => name.includes(text))) &&
      !(values['without-open'] && open.has(name)),
  );
  if (values.list) {
    for (const { name, subject } of named) console.log(`${subject}: ${name}`);
    return 0;
  }
  const seconds = Number(values.minutes) * 60;
  const seed = Number(values.seed);
  if (!(seconds > 0) || !Number.isSafeInteger(seed) || named.length === 0) {
    console.error(usage);
    return 2;
  }
  const interrupted = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    process.once(name, () => interrupted.abort());
  }
  const folder = freshFolder('attacks', values.folder);
  console.log(`seed ${seed}, folder ${folder}`);
  const begin = performance.now();
  const arena = await Arena.open(folder);
  let isGood = false;
  try {
    const report = await runCampaign(
      arena,
      { seconds, seed, names: named.map(({ name }) => name) },
      (line) => console.log(line),
      interrupted.signal,
    );
    const missing = arena.victim.isRunning ? await arena.readAllBack() : ['the process has ended'];
    const foreign = arena.victim.foreignLogLines().map((line) => `line of the log: ${line}`);
    const told = report.told((performance.now() - begin) / 1000);
    for (const line of told.lines) console.log(line);
    for (const problem of [...missing, ...foreign]) console.log(`PROBLEM ${problem}`);
    isGood = told.isGood && missing.length + foreign.length === 0;
  } finally {
    await arena.close();
    if (isGood && !values.keep) rmSync(folder, { recursive: true, force: true });
    else console.log(`kept: ${folder}`);
  }
  console.log(isGood ? 'good' : 'NOT good');
  return isGood ? 0 : 1;
}

process.exitCode = await main();
