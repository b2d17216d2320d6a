/**
 * The storage node as a process. What it does is in server/main.ts, which is loaded through the
 * cache of compiled code, and from the bundle that setup made of it while that is as its sources
 * are.
 */
import { currentBundle, keepCompiledCode } from '../lib/process/compile_cache.mjs';

keepCompiledCode(process.env);
const bundle = currentBundle('dist/node');
await import(bundle ?? './server/main.ts');
