export function keepCompiledCode(environment: NodeJS.ProcessEnv): void;
export function currentBundle(folder: string, root?: string): string | null;
export function saveCompiledCode(): void;
