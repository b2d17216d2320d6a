export interface Kernel {
  readonly name: string;
  /** Its entry. */
  readonly file: string;
}

export interface KernelExport {
  readonly kind: 'constant' | 'function';
  readonly name: string;
  readonly parameters: readonly { readonly name: string; readonly type: string }[];
}

export function kernels(): Kernel[];
export function exportsOf(file: string): KernelExport[];
export function exportsFileOf(kernel: Kernel): { path: string; text: string };
