/**
 * Loaded into a process before all else (`NODE_OPTIONS=--import=…`), this moves its wall clock, not
 * that of the machine: by the milliseconds in the file that TSDB_TEST_CLOCK_FILE names, looked at
 * again and again, so that the clock of a process that runs can jump. Without the file it is right.
 */
import { readFileSync } from 'node:fs';

const lookMillis = 250;
const file = process.env['TSDB_TEST_CLOCK_FILE'];
const now = Date.now;
let offsetMillis = 0;

function look() {
  try {
    offsetMillis = Number(readFileSync(file, 'utf8')) || 0;
  } catch {
    offsetMillis = 0;
  }
}

if (file !== undefined) {
  look();
  setInterval(look, lookMillis).unref();
  Date.now = () => now() + offsetMillis;
}
