/**
 * Schemas that the configuration names, for those who do not want to deploy them: each is deployed to its namespace when
 * that is there and never had it. Whatever was deployed later stands, and so does a reset.
 */
import { basename, dirname, join } from 'node:path';
import { deploySchema, type SchemaTarget } from '#cluster/admin/schemas.ts';
import { hasSchemaOrReset, type SchemaText } from '#cluster/namespaces/schemas.ts';
import type { Topology, TopologyView } from '#cluster/topology/topology.ts';
import { readSchema } from '#engine/messages/schema.ts';
import { ConfigError, type SchemaConfig } from '#lib/config/config.ts';
import type { Clock, Disk } from '#lib/env/env.ts';
import { messageOf, TsdbError } from '#lib/errors.ts';
import type { Log } from '#lib/log.ts';
import { importsOf } from '#lib/proto/declarations.ts';

/** Files that a schema may be of. */
const filesMax = 100;
const retryMillis = 5_000;

/**
 * Reads the files, and those that they import, which lie beside them.
 * @returns by namespace
 * @throws {ConfigError} that names the setting, and what is wrong with its file
 */
export async function readConfiguredSchemas(
  configured: readonly SchemaConfig[],
  disk: Pick<Disk, 'readFile'>,
): Promise<ReadonlyMap<string, SchemaText>> {
  const texts = new Map<string, SchemaText>();
  for (const { namespace, schemaFilePath, messageName } of configured) {
    try {
      const protoName = basename(schemaFilePath);
      const protoMap = await filesOf(dirname(schemaFilePath), protoName, disk);
      readSchema(protoMap, messageName);
      texts.set(namespace, { messageName, protoName, protoMap });
    } catch (error) {
      const setting = `db.proto.schema_registry.${namespace}`;
      throw new ConfigError([`${setting}: ${schemaFilePath}: ${messageOf(error)}`]);
    }
  }
  return texts;
}

async function filesOf(
  folder: string,
  first: string,
  disk: Pick<Disk, 'readFile'>,
): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  const waiting = [first];
  for (let name = waiting.pop(); name !== undefined; name = waiting.pop()) {
    if (Object.hasOwn(files, name)) continue;
    if (Object.keys(files).length === filesMax) throw new Error(`more than ${filesMax} files`);
    const text = Buffer.from(await disk.readFile(join(folder, name))).toString();
    files[name] = text;
    // Those of protobuf itself are refused by name when the schema is read.
    waiting.push(...importsOf(name, text).filter((each) => !each.startsWith('google/protobuf/')));
  }
  return files;
}

/** Deploys them until it is disposed of. */
export class ConfiguredSchemas implements Disposable {
  readonly #texts: ReadonlyMap<string, SchemaText>;
  readonly #target: SchemaTarget;
  readonly #topology: Pick<Topology, 'view' | 'subscribe'>;
  readonly #clock: Pick<Clock, 'sleep'>;
  readonly #log: Log;
  readonly #stop = new AbortController();
  readonly #subscription: Disposable;
  readonly #underWay = new Set<string>();
  /** What stood when a namespace's was refused: it is not tried again before something else does. */
  readonly #refused = new Map<string, unknown>();

  constructor(
    texts: ReadonlyMap<string, SchemaText>,
    target: SchemaTarget,
    topology: Pick<Topology, 'view' | 'subscribe'>,
    clock: Pick<Clock, 'sleep'>,
    log: Log,
  ) {
    this.#texts = texts;
    this.#target = target;
    this.#topology = topology;
    this.#clock = clock;
    this.#log = log;
    this.#subscription = topology.subscribe((view) => this.#look(view));
    this.#look(topology.view);
  }

  #look({ namespaces, awaitsApproval }: TopologyView): void {
    if (awaitsApproval) return;
    for (const [name, text] of this.#texts) {
      const namespace = namespaces.get(name);
      if (namespace === undefined || hasSchemaOrReset(namespace.schemas ?? [], text)) continue;
      const standing = namespace.schemas ?? namespace.number ?? 0;
      if (this.#refused.get(name) === standing || this.#underWay.has(name)) continue;
      void this.#deploy(name, text, standing);
    }
  }

  async #deploy(name: string, text: SchemaText, standing: unknown): Promise<void> {
    this.#underWay.add(name);
    const { signal } = this.#stop;
    try {
      const { deployID } = await deploySchema(this.#target, name, text, { dryRun: false }, signal);
      this.#log.info({ namespace: name, deployID }, 'the configured schema is deployed');
    } catch (error) {
      if (signal.aborted) return;
      const fields = { namespace: name, error: messageOf(error) };
      if (error instanceof TsdbError && error.code === 'BAD_REQUEST') {
        this.#refused.set(name, standing);
        this.#log.error(fields, 'the configured schema is refused; the one that stands goes on');
      } else {
        this.#log.warn(fields, 'the configured schema is not deployed yet; retrying');
        await this.#clock.sleep(retryMillis, signal).catch(() => {});
      }
    } finally {
      this.#underWay.delete(name);
    }
    if (!signal.aborted) this.#look(this.#topology.view);
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
    this.#stop.abort();
  }
}
