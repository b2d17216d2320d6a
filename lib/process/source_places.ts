/**
 * Places in stack traces. A bundle is read faster than its sources (node/bundle.mjs), but nobody
 * can work with a line of it. Its source map is read when a trace is printed, which is when the
 * process ends: a start takes the time and memory that it took without one.
 */
import { existsSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { dirname, resolve } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

/** Replaces places in files that have a map beside them by those in their sources. */
export function withSourcePlaces(trace: string): string {
  const maps = new Map<string, SourceMap | null>();
  return trace.replaceAll(
    /(file:\/\/\/[^\s():]+\.mjs):(\d+):(\d+)/g,
    (place, url: string, line: string, column: string) => {
      const file = fileURLToPath(url);
      if (!maps.has(file)) maps.set(file, mapOf(file));
      // Counted from 0 in the map.
      const entry = maps.get(file)?.findEntry(Number(line) - 1, Number(column) - 1);
      if (entry === undefined || !('originalSource' in entry)) return place;
      const source = pathToFileURL(resolve(dirname(file), entry.originalSource)).href;
      return `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`;
    },
  );
}

function mapOf(file: string): SourceMap | null {
  const mapFile = `${file}.map`;
  if (!existsSync(mapFile)) return null;
  const payload = JSON.parse(readFileSync(mapFile, 'utf8')) as ConstructorParameters<
    typeof SourceMap
  >[0];
  return new SourceMap(payload);
}
