// Why work of the store was not done.

/** The answer when there is no work space for a read, whatever the room is. */
export const answerNoMemory: u64 = 1 << 32;

export const insertOk: u32 = 0;
export const insertMalformed: u32 = 1;
export const insertSpansBlocks: u32 = 2;
export const insertTimeOutOfRange: u32 = 3;
export const insertNoMemory: u32 = 4;
