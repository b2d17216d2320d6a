/**
 * A process that holds the embedded store, for tests that kill it. Prints the port when it serves.
 */
import { realEnv } from '#lib/env/real.ts';
import { silentLog } from '#lib/log.ts';
import { openEmbeddedKv } from '#kv/server.ts';

const [folder, port] = process.argv.slice(2);
const options = { folder: folder!, port: Number(port), env: realEnv, log: silentLog };
const kv = await openEmbeddedKv(options);
process.stdout.write(`${kv.port}\n`);
