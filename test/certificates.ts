/** Certificates for tests, made by openssl as a Secret of cert-manager has them. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const files = ['ca.crt', 'tls.crt', 'tls.key'] as const;

/** An authority in a folder of its own, which signs. */
export class TestAuthority {
  readonly #folder: string;
  #count = 0;

  constructor(folder: string) {
    this.#folder = folder;
    mkdirSync(folder, { recursive: true });
    const subject = [
      '-subj',
      '/CN=authority',
      '-days',
      '2',
      '-addext',
      'keyUsage=critical,keyCertSign',
    ];
    this.#run('req', '-x509', ...newKey, '-keyout', 'ca.key', '-out', 'ca.crt', ...subject);
  }

  #run(...args: string[]): void {
    execFileSync('openssl', args, { cwd: this.#folder, stdio: 'ignore' });
  }

  /**
   * Writes ca.crt, tls.crt and tls.key of a new certificate, for servers and clients.
   * @param names of hosts; 127.0.0.1 when there are none
   */
  issue(target: string, names: readonly string[] = []): void {
    const name = `leaf-${this.#count++}`;
    // With an address members of etcd would be known by it, and by no name.
    const subjects = names.length === 0 ? ['IP:127.0.0.1'] : names.map((host) => `DNS:${host}`);
    const usages = 'extendedKeyUsage=serverAuth,clientAuth';
    const extensions = `subjectAltName=${subjects.join(',')}\n${usages}\n`;
    writeFileSync(join(this.#folder, `${name}.ext`), extensions);
    const [key, request, certificate] = [`${name}.key`, `${name}.csr`, `${name}.crt`] as const;
    this.#run('req', '-new', ...newKey, '-keyout', key, '-out', request, '-subj', `/CN=${name}`);
    const authority = ['-CA', 'ca.crt', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '1'];
    const output = ['-out', certificate, '-extfile', `${name}.ext`];
    this.#run('x509', '-req', '-in', request, ...authority, ...output);
    mkdirSync(target, { recursive: true });
    for (const [index, from] of ['ca.crt', certificate, key].entries()) {
      const file = join(target, files[index]!);
      copyFileSync(join(this.#folder, from), `${file}.new`);
      renameSync(`${file}.new`, file);
    }
  }
}

const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
