/**
 * The same as main.mjs, which starts sooner: no types are stripped before the cache of compiled
 * code is on.
 */
import './main.mjs';
