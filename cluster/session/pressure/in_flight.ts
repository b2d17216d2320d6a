/** How much is on its way to each instance, and may be: one that is slow takes no more memory of a session than that. */
import { TsdbError } from '#lib/errors.ts';
import { outstandingBytesPerInstanceMax, outstandingRowsPerInstanceMax } from '../../limits.ts';

export class InFlight {
  readonly #rowsMax: number;
  readonly #byInstance = new Map<string, { rows: number; bytes: number }>();

  constructor(rowsMax: number = outstandingRowsPerInstanceMax) {
    this.#rowsMax = rowsMax;
  }

  /**
   * Counts what goes to an instance until `leave`. One request may go whatever its size.
   * @throws {TsdbError} RESOURCE_EXHAUSTED when too much is on its way to it
   */
  enter(instanceId: string, rows: number, bytes: number): void {
    const flight = this.#byInstance.get(instanceId) ?? { rows: 0, bytes: 0 };
    const isFull =
      flight.rows + rows > this.#rowsMax || flight.bytes + bytes > outstandingBytesPerInstanceMax;
    if (isFull && flight.rows > 0) {
      throw new TsdbError('RESOURCE_EXHAUSTED', 'too many rows are on their way to the instance');
    }
    flight.rows += rows;
    flight.bytes += bytes;
    this.#byInstance.set(instanceId, flight);
  }

  leave(instanceId: string, rows: number, bytes: number): void {
    const flight = this.#byInstance.get(instanceId)!;
    flight.rows -= rows;
    flight.bytes -= bytes;
    if (flight.rows === 0) this.#byInstance.delete(instanceId);
  }
}
