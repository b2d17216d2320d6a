/** The storage node as a process. What it does is in server/main.ts, which is loaded through the cache of compiled code. */
import { keepCompiledCode } from '#lib/env/compile_cache.ts';

keepCompiledCode(process.env);
await import('./server/main.ts');
