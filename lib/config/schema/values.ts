/**
 * Kinds of values that settings have, as zod schemas: durations, sizes, addresses; and the two
 * kinds of settings that are known and not there. Each carries how the documentation names it
 * (`DocumentedKind`).
 */
import * as z from 'zod';
import type { ListenAddress } from './sections.ts';
import { formatDurationNanos, parseDurationNanos } from '../../time.ts';

/** What the documentation says about a schema; see keys.ts. */
export type DocumentedKind =
  | {
      readonly kind: 'value';
      readonly type: string;
      readonly unit?: 'duration' | 'size' | 'address';
    }
  /** Taken, noted in the log, and nothing more. */
  | { readonly kind: 'withoutEffect' }
  /** Stops the start. */
  | { readonly kind: 'refused' }
  /** A mapping that several places share, described once under this name. */
  | { readonly kind: 'shared'; readonly name: string };

/** Where `documented` leaves its word for keys.ts. */
export const documentation: z.core.$ZodRegistry<DocumentedKind> = z.registry<DocumentedKind>();

/** Tells the documentation what a schema is. */
export function documented<Schema extends z.ZodType>(schema: Schema, kind: DocumentedKind): Schema {
  documentation.add(schema as z.ZodType, kind);
  return schema;
}

/** Stands in the schema's output for a setting that was taken without effect. */
export const withoutEffect: unique symbol = Symbol('without effect');

/** A setting that tunes a mechanism of the reference system which does not exist here. */
export const tuning: z.ZodOptional<z.ZodType> = documented(
  z
    .unknown()
    .transform(() => withoutEffect)
    .optional(),
  { kind: 'withoutEffect' },
);

/** Keys for a schema's shape; their values are of no interest, so their types are not kept. */
export function tunings(...names: string[]): object {
  return Object.fromEntries(names.map((name) => [name, tuning]));
}

/** A setting of a feature that is not there; `off` tells the values that ask for nothing. */
export function notSupported(
  feature: string,
  off: (value: unknown) => boolean = () => false,
): z.ZodOptional<z.ZodType> {
  const schema = z
    .unknown()
    .superRefine((value, context) => {
      if (value === undefined || off(value)) return;
      context.addIssue({ code: 'custom', message: `not supported: ${feature}` });
    })
    .optional();
  return documented(schema, { kind: 'refused' });
}

export const isFalse = (value: unknown): boolean => value === false;
/** A number or a duration. */
export const isZero = (value: unknown): boolean => /^0(ns|us|ms|s|m|h)?$/.test(String(value));
export const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0;
export const isDisabled = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'enabled' in value && value.enabled === false;

/** Text with something in it. */
export const text: z.ZodType<string> = documented(z.string().min(1, 'must not be empty'), {
  kind: 'value',
  type: 'text',
});
/** true or false. */
export const flag: z.ZodType<boolean> = documented(z.boolean(), { kind: 'value', type: 'flag' });
const countOf = (least: number, most: number): z.ZodType<number> =>
  documented(z.number().int().min(least).max(most), {
    kind: 'value',
    type: most === Number.MAX_SAFE_INTEGER ? `count ≥ ${least}` : `count ${least} to ${most}`,
  });
/** A whole number from 0. */
export const count = (most: number = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  countOf(0, most);
/** A whole number from 1. */
export const countPositive = (most: number = Number.MAX_SAFE_INTEGER): z.ZodType<number> =>
  countOf(1, most);

/** One of some words. */
export function oneOf<const Words extends readonly [string, ...string[]]>(
  words: Words,
): z.ZodType<Words[number]> {
  const schema = documented(z.enum(words), { kind: 'value', type: words.join(', ') });
  return schema as unknown as z.ZodType<Words[number]>;
}

const notADuration = 'not a duration such as "48h", "30m" or "10s"';

/** A Go duration, as milliseconds (a fraction for less than one). */
export const durationMillis: z.ZodType<number> = z
  .union([z.string(), z.literal(0)], notADuration)
  .transform((value, context) => {
    if (value === 0) return 0;
    try {
      const nanos = parseDurationNanos(value, 'duration');
      if (nanos >= 0n) return Number(nanos) / 1e6;
      context.addIssue({ code: 'custom', message: 'must not be negative' });
    } catch {
      context.addIssue({ code: 'custom', message: notADuration });
    }
    return z.NEVER;
  })
  .register(documentation, {
    kind: 'value',
    type: 'duration',
    unit: 'duration',
  }) as unknown as z.ZodType<number>;

/** Longest wait that the timers of Node.js know; they take a longer one for 1 ms. */
const timerMillisMax = 2 ** 31 - 1;

/** A Go duration of whole milliseconds, one at least. */
export function durationPositive(most: number = Number.MAX_SAFE_INTEGER): z.ZodType<number> {
  const limits = most === Number.MAX_SAFE_INTEGER ? '≥ 1ms' : `≥ 1ms ≤ ${durationText(most)}`;
  return durationMillis
    .transform((millis, context) => {
      if (millis >= 1 && millis <= most && Number.isInteger(millis)) return millis;
      const reason = millis >= 1 && millis <= most ? 'whole milliseconds' : limits;
      context.addIssue({ code: 'custom', message: `must be ${reason}` });
      return z.NEVER;
    })
    .register(documentation, {
      kind: 'value',
      type: `duration ${limits}`,
      unit: 'duration',
    }) as unknown as z.ZodType<number>;
}

/** A duration that a timer waits. */
export const timeoutMillis = (): z.ZodType<number> => durationPositive(timerMillisMax);

const durationText = (millis: number): string => formatDurationNanos(BigInt(millis) * 1_000_000n);

const byteUnits = {
  B: 1,
  KB: 1e3,
  MB: 1e6,
  GB: 1e9,
  KiB: 2 ** 10,
  MiB: 2 ** 20,
  GiB: 2 ** 30,
} as const;

const notASize = 'not a size such as 4096, "64MiB" or "2GiB"';

/** Bytes, as a number or as text with a unit: "512KiB", "4GiB". */
export function bytes(
  least: number = 0,
  most: number = Number.MAX_SAFE_INTEGER,
): z.ZodType<number> {
  const limits = [
    ...(least > 0 ? [`≥ ${formatSize(least)}`] : []),
    ...(most < Number.MAX_SAFE_INTEGER ? [`≤ ${formatSize(most)}`] : []),
  ];
  return z
    .union([z.number(), z.string()], notASize)
    .transform((value, context) => {
      const match = /^(\d+)\s*(B|KiB|MiB|GiB|KB|MB|GB)?$/.exec(String(value).trim());
      const unit = byteUnits[(match?.[2] ?? 'B') as keyof typeof byteUnits];
      const size = match === null ? Number.NaN : Number(match[1]) * unit;
      if (!Number.isSafeInteger(size)) {
        context.addIssue({
          code: 'custom',
          message: notASize,
        });
        return z.NEVER;
      }
      if (size < least || size > most) {
        context.addIssue({ code: 'custom', message: `must be ${limits.join(' and ')}` });
        return z.NEVER;
      }
      return size;
    })
    .register(documentation, {
      kind: 'value',
      type: ['size', ...limits].join(' '),
      unit: 'size',
    }) as unknown as z.ZodType<number>;
}

/** The shortest exact form: 524288 is "512KiB". */
export function formatSize(size: number): string {
  for (const unit of ['GiB', 'MiB', 'KiB'] as const) {
    if (size >= byteUnits[unit] && size % byteUnits[unit] === 0) {
      return `${size / byteUnits[unit]}${unit}`;
    }
  }
  return String(size);
}

/**
 * Host and port of text such as "0.0.0.0:7201", ":7201", "[::1]:7201".
 * @returns null when it is not one
 */
export function parseAddress(address: string): ListenAddress | null {
  const match = /^(?:\[([0-9a-fA-F:.%a-z]+)\]|([^:\s[\]/]*)):(\d{1,5})$/.exec(address);
  if (match === null || Number(match[3]) > 65_535) return null;
  return { host: match[1] ?? match[2] ?? '', port: Number(match[3]) };
}

/** Where a server listens. */
export const address: z.ZodType<ListenAddress> = z
  .preprocess(
    // Older configurations write {type: config, value: "0.0.0.0:7201"}.
    (value) =>
      typeof value === 'object' && value !== null && (value as { type?: unknown }).type === 'config'
        ? (value as { value?: unknown }).value
        : value,
    z.string(),
  )
  .transform((value, context) => {
    const parsed = parseAddress(value);
    if (parsed !== null) return { host: parsed.host || '0.0.0.0', port: parsed.port };
    context.addIssue({ code: 'custom', message: 'not an address such as "0.0.0.0:7201"' });
    return z.NEVER;
  })
  .register(documentation, {
    kind: 'value',
    type: 'address',
    unit: 'address',
  }) as unknown as z.ZodType<ListenAddress>;

/**
 * Host of addresses that nothing names: all interfaces where a cluster has to reach the process, else
 * loopback, for there is no password and a single node may stand on anybody's desk.
 */
export const hostByDiscovery = '';
export const hostOfSingleNode = '127.0.0.1';
export const hostOfCluster = '0.0.0.0';

/** An address whose host follows from the discovery unless it is given. */
export const addressByDiscovery = (port: number): z.ZodType<ListenAddress> =>
  address.default({ host: hostByDiscovery, port });

/** A name by which a server may be called: exact, `*.name` for all below, `*` for any. */
const hostName: z.ZodType<string> = documented(
  z.string().regex(/^(?:\*|(?:\*\.)?[\w-]+(?:\.[\w-]+)*\.?)$/, {
    message: 'not a host name without port, such as "tsdb" or "*.example.com"',
  }),
  { kind: 'value', type: 'host name' },
);
export const hostNames: z.ZodType<readonly string[] | undefined> = z.array(hostName).optional();

/** "host:port", with or without a scheme, kept as text. */
export const endpoint: z.ZodType<string> = documented(
  z.string().refine(
    (value) => {
      const parsed = parseAddress(value.replace(/^https?:\/\//, '').replace(/\/$/, ''));
      return parsed !== null && parsed.host !== '';
    },
    { message: 'not an address such as "etcd-0:2379"' },
  ),
  { kind: 'value', type: 'address' },
);
