// Creates the namespace `default` of a single node and opens it for traffic:
//
//   node create_database.mjs http://127.0.0.1:7201
import { setTimeout as delay } from 'node:timers/promises';

const name = 'default';
const triesMax = 120;
const [url] = process.argv.slice(2);

const post = async (path, body) => {
  const answer = await fetch(`${url}/api/v1/${path}`, {
    method: 'POST',
    body: JSON.stringify(body),
  });
  return { ok: answer.ok, text: await answer.text() };
};

let last = '';
for (let tries = 0; tries < triesMax; tries += 1) {
  try {
    const ready = await post('services/tsdb/namespace/ready', { name });
    if (ready.ok) process.exit(0);
    last = ready.text;
    // Refused when it is there already and only its shards are not whole yet.
    await post('database/create', { type: 'local', namespaceName: name, retentionTime: '48h' });
  } catch (error) {
    // The node is starting.
    last = String(error.cause ?? error);
  }
  await delay(1_000);
}
console.error(`the namespace ${name} is not ready: ${last}`);
process.exit(1);
