/**
 * Who evaluates Graphite's functions: the single node that has the samples, and carbonapi and graphite-web, which fetch them
 * from it as from any of their storages. Of these two the CPU of the storage does not count.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { eventually, NodeServer, Program } from '../../integration/process.ts';
import { freePorts } from '../../ports.ts';
import { createOnlyNamespace } from '../short_namespace.ts';

export const systemNames = ['tsdb', 'carbonapi', 'graphite-web'] as const;
export type SystemName = (typeof systemNames)[number];

export interface Evaluator {
  /** Whose CPU and memory count. */
  readonly program: Program;
  readonly renderUrl: string;
}

/** Samples that are a day old are taken. */
export async function startStorage(
  folder: string,
): Promise<{ readonly server: NodeServer; readonly carbonPort: number }> {
  const [carbonPort] = (await freePorts(1)) as [number];
  const server = await NodeServer.create({
    folder,
    coordinatorSettings: [`carbon: {ingester: {listenAddress: "127.0.0.1:${carbonPort}"}}`],
  });
  await server.start();
  await createOnlyNamespace(server, 'samples', {
    retention: '240h',
    blockSize: '48h',
    bufferFuture: '2h',
    bufferPast: '30h',
    aggregation: { aggregated: false },
  });
  return { server, carbonPort };
}

/** @param binary found on the PATH when it has no folder */
export async function startCarbonapi(
  folder: string,
  binary: string,
  storageUrl: string,
): Promise<Evaluator> {
  const [port] = (await freePorts(1)) as [number];
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'carbonapi.yaml');
  const backend = {
    groupName: 'storage',
    protocol: 'carbonapi_v2_pb',
    lbMethod: 'broadcast',
    maxTries: 1,
    servers: [storageUrl],
  };
  writeFileSync(
    file,
    JSON.stringify({
      listeners: [{ address: `127.0.0.1:${port}` }],
      cache: { type: 'null' },
      backendCache: { type: 'null' },
      graphite: { interval: '0s' },
      logger: [{ logger: '', file: 'stderr', level: 'warn', encoding: 'json' }],
      upstreams: {
        timeouts: { find: '60s', render: '60s', connect: '1s' },
        backendsv2: { backends: [backend] },
      },
    }),
  );
  const program = new Program('carbonapi', folder, binary, ['-config', file], {}, folder);
  program.start();
  const url = `http://127.0.0.1:${port}`;
  await eventually('carbonapi answers', async () => (await fetch(`${url}/lb_check`)).ok);
  return { program, renderUrl: `${url}/render` };
}

const server = `
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIServer, make_server
from graphite.wsgi import application

class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

make_server('127.0.0.1', int(sys.argv[1]), application, Server).serve_forever()
`;

/** @param python that has graphite-web */
export async function startGraphiteWeb(
  folder: string,
  python: string,
  storageUrl: string,
): Promise<Evaluator> {
  const [port] = (await freePorts(1)) as [number];
  for (const name of ['log', 'storage/whisper']) mkdirSync(join(folder, name), { recursive: true });
  const settings = `
SECRET_KEY = 'render'
CLUSTER_SERVERS = ['${new URL(storageUrl).host}']
STORAGE_DIR = '${folder}/storage'
LOG_DIR = '${folder}/log'
LOG_ROTATION = False
ALLOWED_HOSTS = ['*']
DATABASES = {'default': {'ENGINE': 'django.db.backends.sqlite3', 'NAME': '${folder}/graphite.db'}}
REMOTE_FETCH_TIMEOUT = 60
FIND_TIMEOUT = 60
DEFAULT_CACHE_DURATION = 0
TIME_ZONE = 'UTC'
`;
  writeFileSync(join(folder, 'render_settings.py'), settings);
  writeFileSync(join(folder, 'serve.py'), server);
  const environment = {
    PYTHONPATH: folder,
    DJANGO_SETTINGS_MODULE: 'graphite.settings',
    GRAPHITE_SETTINGS_MODULE: 'render_settings',
  };
  execFileSync(python, ['-m', 'django', 'migrate', '--run-syncdb'], {
    env: { ...process.env, ...environment },
    stdio: 'ignore',
  });
  const args = [join(folder, 'serve.py'), String(port)];
  const program = new Program('graphite-web', folder, python, args, environment, folder);
  program.start();
  const url = `http://127.0.0.1:${port}`;
  await eventually('graphite-web answers', async () => (await fetch(`${url}/version`)).ok);
  return { program, renderUrl: `${url}/render` };
}
