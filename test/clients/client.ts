/** Clients of other systems as their registries have them, and what has to be there after each was used. */

/** Where a client comes from. */
export type Origin = PythonPackages | NodePackages | GoModule | Programs;

interface PythonPackages {
  readonly kind: 'pip';
  readonly packages: readonly string[];
}

interface NodePackages {
  readonly kind: 'npm';
  readonly packages: readonly string[];
}

/** What the program imports of it; or its own `command`, with these build tags. */
interface GoModule {
  readonly kind: 'go';
  readonly module: string;
  readonly command?: { readonly package: string; readonly tags: readonly string[] };
}

/** Of the system, on the PATH. */
interface Programs {
  readonly kind: 'system';
  readonly programs: readonly string[];
}

export interface Client {
  readonly name: string;
  readonly origin: Origin;
  /** Name of a file in `programs`, which uses it as its documentation says; it ends with 0 when the client saw no error. */
  readonly program: string;
  /** Instant queries of PromQL that come to these values, within as long as a flush takes. */
  readonly expected: Readonly<Record<string, number>>;
}

/** What a program knows of the server, as variables of its environment. */
export interface Addresses {
  readonly TSDB_URL: string;
  readonly STATSD_PORT: string;
  readonly CARBON_PORT: string;
  readonly CARBON_PICKLE_PORT: string;
  readonly OPENTSDB_PORT: string;
  readonly OTLP_GRPC_PORT: string;
}
