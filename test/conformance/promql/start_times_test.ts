/** Counters that say when they started, where Prometheus' own scripts do not reach. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PromqlEngine } from '#coordinator/promql/engine.ts';
import { realEnv } from '#lib/env/real.ts';
import { MemoryStorage } from './memory_storage.ts';
import { runScript } from './run_script.ts';

const scripts: Readonly<Record<string, string>> = {
  'a start after the first sample is none, and that it stays no reset': `
load 1m
  c_total@st 1ms-1mx4
  c_total 1 2 3 4 5
  h@st 1ms-1mx4
  h {{schema:0 sum:1 count:1 buckets:[1]}}+{{schema:0 sum:1 count:1 buckets:[1]}}x4

eval instant at 4m increase(c_total[5m])
  {} 5

eval instant at 4m rate(c_total[5m])
  {} 0.016666666666666666

eval instant at 1m irate(c_total[5m])
  {} 0.016666666666666666

eval instant at 4m resets(c_total[5m])
  {} 0

eval instant at 4m increase(h[5m])
  {} {{schema:0 sum:5 count:5 buckets:[5]}}

eval instant at 1m irate(h[5m])
  {} {{schema:0 sum:0.016666666666666666 count:0.016666666666666666 buckets:[0.016666666666666666]}}

eval instant at 4m resets(h[5m])
  {} 0
`,
  'a start after the row before is a reset, whatever the start before was': `
load 1m
  c_total@st 1ms -30s -90s
  c_total 1 2 3

eval instant at 2m resets(c_total[5m])
  {} 1

eval instant at 1m irate(c_total[5m])
  {} 0.03333333333333333
`,
  'an anchored window counts starts as resets, from the row that it is anchored at': `
load 1m
  c_total@st 1ms -30s -90s -10s
  c_total 1 2 3 4
  h@st 1ms -30s -90s -10s
  h {{schema:0 sum:1 count:1 buckets:[1]}}+{{schema:0 sum:1 count:1 buckets:[1]}}x3
  both@st 1ms -30s _ -10s
  both 1 2 {{schema:0 sum:1 count:1 buckets:[1]}} {{schema:0 sum:2 count:2 buckets:[2]}}

eval instant at 1m resets(c_total[1m] anchored)
  {} 1

eval instant at 2m resets(c_total[1m] anchored)
  {} 0

eval instant at 3m resets(c_total[5m] anchored)
  {} 2

eval instant at 3m resets(h[5m] anchored)
  {} 2

eval instant at 2m resets(h[1m] anchored)
  {} 0

eval instant at 3m resets(both[5m] anchored)
  {} 3

eval instant at 3m changes(c_total[5m] anchored)
  {} 3

eval instant at 3m increase(c_total[5m] anchored)
  {} 3
`,
};

for (const [name, script] of Object.entries(scripts)) {
  test(name, async () => {
    const storage = new MemoryStorage();
    const features = { startTimestamps: true, extendedRangeSelectors: true };
    const engine = new PromqlEngine(storage, { clock: realEnv.clock, features });
    const { failures } = await runScript(script, storage, engine);
    assert.deepEqual(failures, []);
  });
}
