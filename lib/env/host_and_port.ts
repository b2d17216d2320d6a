/** Addresses as texts. */

const form = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([\w.-]+)):(\d{1,5})$/;

export interface HostAndPort {
  /** Without brackets. */
  readonly host: string;
  readonly port: number;
}

/** Of `host:port` or `[address]:port`; null for any other text. */
export function hostAndPortOf(text: string): HostAndPort | null {
  const [, address, name, port] = form.exec(text) ?? [];
  const host = address ?? name;
  if (host === undefined || Number(port) > 65_535) return null;
  return { host, port: Number(port) };
}

export function isHostAndPort(text: string): boolean {
  return hostAndPortOf(text) !== null;
}
