/** Points of OTLP that were refused: each once, however many of its rows were. */
import { noPoint, type OtlpPart } from '#engine/otlp/points/types.ts';

export interface RefusedPoints {
  readonly count: number;
  /** Why; '' when nothing was refused. */
  readonly message: string;
}

export class PointsOfRows {
  readonly #points = new Set<number>();
  /** Of those that have no rows. */
  #refusedCount = 0;
  #part: OtlpPart | null = null;
  #firstRow = 0;

  /** @param firstRow of the part, among all rows of the request */
  begin(part: OtlpPart, firstRow: number): void {
    this.#part = part;
    this.#firstRow = firstRow;
    this.#refusedCount += part.refusedCount;
  }

  /** @param row of the part that began last */
  refuse(row: number): void {
    const { pointOfSample, pointOfHistogram } = this.#part!;
    const at = row - this.#firstRow;
    const point =
      at < pointOfSample.length ? pointOfSample[at]! : pointOfHistogram[at - pointOfSample.length]!;
    if (point !== noPoint) this.#points.add(point);
  }

  get refusedCount(): number {
    return this.#refusedCount + this.#points.size;
  }
}
