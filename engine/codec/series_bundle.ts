/**
 * Series with their encoded chunks, as a read hands them over: from a store to the session, over
 * gRPC, from the session to the query engines. Flat, so that ten thousand series are a handful of
 * buffers.
 */
export interface SeriesBundle {
  readonly seriesCount: number;
  /** Canonical tags (lib/tags.ts) of series i: tagsData[tagsOffset[i] .. tagsOffset[i+1]). */
  readonly tagsData: Uint8Array;
  readonly tagsOffset: Uint32Array;
  /** `idSchemeCode` of series i; 0 = the ID is explicit, else it derives from the tags. */
  readonly idScheme: Uint8Array;
  /** Explicit IDs; the range of series i is empty when its ID derives from its tags. */
  readonly idData: Uint8Array;
  readonly idOffset: Uint32Array;
  /**
   * Chunks of series i, one after the other: chunkData[chunkOffset[i] .. chunkOffset[i+1]). A
   * chunk is self-delimiting (docs/formats/chunk.md). Chunks of a series may overlap in time and
   * may hold the same timestamp twice: decoding merges them by the total order of DESIGN.md (higher
   * batch version, then larger value bits). So joining two replicas' answers is concatenation.
   */
  readonly chunkData: Uint8Array;
  readonly chunkOffset: Uint32Array;
}

export const emptyBundle: SeriesBundle = {
  seriesCount: 0,
  tagsData: new Uint8Array(0),
  tagsOffset: new Uint32Array(1),
  idScheme: new Uint8Array(0),
  idData: new Uint8Array(0),
  idOffset: new Uint32Array(1),
  chunkData: new Uint8Array(0),
  chunkOffset: new Uint32Array(1),
};
