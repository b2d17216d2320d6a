/**
 * Certificates of gRPC clients that may change while they run: connections that are open stay, those
 * that are made later take the newest.
 */
import { createSecureContext } from 'node:tls';

type AuthorityListener = (update: { readonly caCertificate: Buffer }) => void;
type IdentityListener = (
  update: { readonly certificate: Buffer; readonly privateKey: Buffer } | null,
) => void;

/** As grpc-js asks for certificates. */
export interface CertificateProvider {
  addCaCertificateListener(listener: AuthorityListener): void;
  removeCaCertificateListener(listener: AuthorityListener): void;
  addIdentityCertificateListener(listener: IdentityListener): void;
  removeIdentityCertificateListener(listener: IdentityListener): void;
}

/** PEM texts. */
export interface ClientCertificates {
  readonly rootCertificates: Uint8Array;
  /** Both or none. */
  readonly certificate?: Uint8Array;
  readonly privateKey?: Uint8Array;
}

export class ChangingCertificates {
  #current: ClientCertificates;
  readonly #authorities = new Set<AuthorityListener>();
  readonly #identities = new Set<IdentityListener>();

  /** @throws {Error} of TLS when they cannot be used */
  constructor(first: ClientCertificates) {
    check(first);
    this.#current = first;
  }

  get hasIdentity(): boolean {
    return this.#current.certificate !== undefined;
  }

  /**
   * @returns whether they are others
   * @throws {Error} of TLS when they cannot be used, as a key that is not the certificate's; the
   * ones before stay
   */
  replace(next: ClientCertificates): boolean {
    if (isSame(this.#current, next)) return false;
    check(next);
    this.#current = next;
    for (const listener of this.#authorities) this.#tellAuthority(listener);
    for (const listener of this.#identities) this.#tellIdentity(listener);
    return true;
  }

  get provider(): CertificateProvider {
    return {
      addCaCertificateListener: (listener) => {
        this.#authorities.add(listener);
        this.#tellAuthority(listener);
      },
      removeCaCertificateListener: (listener) => void this.#authorities.delete(listener),
      addIdentityCertificateListener: (listener) => {
        this.#identities.add(listener);
        this.#tellIdentity(listener);
      },
      removeIdentityCertificateListener: (listener) => void this.#identities.delete(listener),
    };
  }

  #tellAuthority(listener: AuthorityListener): void {
    listener({ caCertificate: Buffer.from(this.#current.rootCertificates) });
  }

  #tellIdentity(listener: IdentityListener): void {
    const { certificate, privateKey } = this.#current;
    if (certificate === undefined || privateKey === undefined) listener(null);
    else {
      listener({ certificate: Buffer.from(certificate), privateKey: Buffer.from(privateKey) });
    }
  }
}

function check({ rootCertificates, certificate, privateKey }: ClientCertificates): void {
  createSecureContext({
    ca: Buffer.from(rootCertificates),
    ...(certificate === undefined ? {} : { cert: Buffer.from(certificate) }),
    ...(privateKey === undefined ? {} : { key: Buffer.from(privateKey) }),
  });
}

function isSame(one: ClientCertificates, other: ClientCertificates): boolean {
  const isEqual = (a: Uint8Array | undefined, b: Uint8Array | undefined): boolean =>
    Buffer.from(a ?? []).equals(Buffer.from(b ?? []));
  return (
    isEqual(one.rootCertificates, other.rootCertificates) &&
    isEqual(one.certificate, other.certificate) &&
    isEqual(one.privateKey, other.privateKey)
  );
}
