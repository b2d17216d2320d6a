/** The ID of this process's host in the placement, from the source that the configuration names. */
import { ConfigError, type HostIdConfig } from './config.ts';

/** Whether an ID can stand in a placement. */
const hostIdPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,252}$/;

/**
 * The host ID that the configuration names.
 *
 * @param sources the world: host name, environment, a file's text (null while it is not there), and
 * a wait
 * @throws {ConfigError} when the source has none; the signal's reason when aborted
 */
export async function resolveHostIdValue(
  config: HostIdConfig,
  sources: {
    readonly hostname: string;
    readonly environment: Readonly<Record<string, string | undefined>>;
    readFileText(path: string): Promise<string | null>;
    monotonicMillis(): number;
    sleep(millis: number, signal: AbortSignal): Promise<void>;
  },
  signal: AbortSignal,
): Promise<string> {
  const checked = (id: string | undefined, source: string): string => {
    const trimmed = id?.trim() ?? '';
    if (hostIdPattern.test(trimmed)) return trimmed;
    const reason = trimmed === '' ? 'gives no host ID' : `gives no usable host ID: ${trimmed}`;
    throw new ConfigError([`hostID: ${source} ${reason}`]);
  };
  switch (config.resolver) {
    case 'config':
      return checked(config.value, 'value');
    case 'hostname':
      return checked(sources.hostname, 'the host name');
    case 'environment':
      return checked(sources.environment[config.envVarName], `variable ${config.envVarName}`);
    case 'file': {
      const deadlineMillis = sources.monotonicMillis() + config.timeoutMillis;
      for (;;) {
        const text = await sources.readFileText(config.path);
        // Another container may still be about to write the file.
        if (text !== null && text.trim() !== '') return checked(text, config.path);
        if (sources.monotonicMillis() >= deadlineMillis) return checked(text ?? '', config.path);
        await sources.sleep(hostIdPollMillis, signal);
      }
    }
    default:
      return config satisfies never;
  }
}

const hostIdPollMillis = 200;
