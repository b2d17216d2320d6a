/**
 * Lines of JSON as VictoriaMetrics exports them: `{"metric":{…},"values":[…],"timestamps":[…]}`, times in milliseconds. A series
 * of many rows has several lines. The last line is `{"end":{…}}`: an answer without it broke off.
 */
import type { ExportCounts, ExportRows } from './rows.ts';
import { valueJson } from './value_text.ts';

export const jsonLinesType = 'application/x-ndjson';

export class JsonLines {
  readonly contentType: string = jsonLinesType;
  #metric = '';

  *texts({ tags, isFirst, rowCount, millis, values, valueWords }: ExportRows): Generator<string> {
    if (isFirst) {
      const members = tags.map(
        ({ name, value }) => `${JSON.stringify(name)}:${JSON.stringify(value)}`,
      );
      this.#metric = `{"metric":{${members.join(',')}},"values":[`;
    }
    let text = this.#metric;
    for (let row = 0; row < rowCount; row++) {
      if (row > 0) text += ',';
      text += valueJson(values[row]!, valueWords[2 * row]!, valueWords[2 * row + 1]!);
    }
    text += '],"timestamps":[';
    for (let row = 0; row < rowCount; row++) text += row > 0 ? `,${millis[row]}` : `${millis[row]}`;
    yield `${text}]}\n`;
  }

  end(counts: ExportCounts): string {
    return `${JSON.stringify({ end: counts })}\n`;
  }
}
