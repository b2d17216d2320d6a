// The memory of a store and its allocator. Everything lies in the memory itself, at places fixed
// here. Pages of 64 KiB hold cells of one size; what is larger takes a run of whole pages.
import { encoderScratchBytes } from '../../../codec/kernel/scratch';

export const pageBytes: usize = 65536;
export const stateAt: usize = 1 * pageBytes;
export const tablesAt: usize = 2 * pageBytes;
export const encoderAt: usize = 11 * pageBytes;
export const directoryAt: usize = 13 * pageBytes;
export const namespacesAt: usize = 14 * pageBytes;
const pageTableAt: usize = 16 * pageBytes;
/** Pages below hold what is listed above; the page table alone could describe 4 GiB. */
const pageFirst: u32 = 32;

/** Cells of 16 to 256 bytes in steps of 16, then eight sizes for each doubling up to 32 KiB. */
const classCount: usize = 72;
const cellBytesMax: usize = 32768;

@unmanaged
export class State {
  /** End of the pages ever taken, and the most that there may be. */
  pageEnd: u32;
  pageMax: u32;
  /** Pages in use, without those below `pageFirst`. */
  pagesUsed: u32;
  /** Head of the list of free pages, 0 for none. */
  pageFree: u32;

  seriesEnd: u32;
  slotFree: u32;
  seriesCount: u32;
  sampleCount: u64;
  /** Of the batch that is being applied. */
  batchVersion: i64;
  /** Highest one of any batch that was applied. */
  batchVersionHighest: i64;
  /**
   * Versions of rows that are in files, or came from elsewhere, are not above: `recent` for blocks
   * that were open or had just ended when their rows left the memory, `other` for older ones.
   */
  versionRecentFiles: i64;
  versionOtherFiles: i64;
  /** 1: sealed chunks keep the version of each row. */
  keepsRowVersions: u32;
  /** 1: a chunk of those that were scanned last has start times. */
  hasStarts: u32;

  /** Work space for merges. */
  desk: usize;
  deskBytes: usize;
  /** The node of whose typed rows some lie on the desk (`heldTyped`); 0 for none. */
  lookedTyped: usize;
  /** The node of which `findHeld` (held.ts) knows something still, 0 for none, and work space for it. */
  lookedNode: usize;
  looked: usize;
  lookedBytes: usize;
  /** Where callers leave columns and fetch answers. */
  stage: usize;
  stageBytes: usize;
  /** Set by operations that answer with more than one number. */
  answer: u64;
  /** Takes what was loaded only to have it near. */
  touched: u32;
}

/** The answer (of the state) when there is no work space for a read, whatever the room is. */
export const answerNoMemory: u64 = 1 << 32;

/** What becomes of chunks that are to be added. */
export const insertOk: u32 = 0;
export const insertMalformed: u32 = 1;
export const insertSpansBlocks: u32 = 2;
export const insertTimeOutOfRange: u32 = 3;
export const insertNoMemory: u32 = 4;
/** A typed part could not be merged any more. */
export const insertTooLarge: u32 = 5;

@inline
export function state(): State {
  return changetype<State>(stateAt);
}

// After the state: the first page with free cells of each class.
const classListsAt: usize = stateAt + 1024;

/** One entry of the page table, 16 bytes. */
@unmanaged
class Page {
  /** Free cells are a list through their first word. */
  cellFree: u32;
  next: u16;
  previous: u16;
  /** Cells that were never used yet begin at this number. */
  cellFresh: u16;
  cellsFree: u16;
  /** Class + 1; 0 in free pages and in runs. */
  kind: u8;
  isFree: u8;
  /** Length of a run at its first page. */
  runPages: u16;
}

@inline
function pageAt(page: u32): Page {
  return changetype<Page>(pageTableAt + (<usize>page << 4));
}

@inline
function classOf(bytes: usize): usize {
  if (bytes <= 256) return bytes == 0 ? 0 : (bytes - 1) >> 4;
  const doubling: usize = 31 - <usize>clz(<u32>bytes - 1);
  return 16 + ((doubling - 8) << 3) + (((bytes - 1) >> (doubling - 3)) & 7);
}

@inline
function cellBytesOf(sizeClass: usize): usize {
  if (sizeClass < 16) return (sizeClass + 1) << 4;
  const doubling: usize = ((sizeClass - 16) >> 3) + 8;
  return (8 + (sizeClass & 7) + 1) << (doubling - 3);
}

/** Bytes that an allocation of so many really has. */
export function roomOf(bytes: usize): usize {
  if (bytes <= cellBytesMax) return cellBytesOf(classOf(bytes));
  return (bytes + pageBytes - 1) & ~(pageBytes - 1);
}

/** Bytes that the allocation at the address really has. */
export function roomAt(address: usize): usize {
  const p = pageAt(<u32>(address / pageBytes));
  return p.kind == 0 ? <usize>p.runPages * pageBytes : cellBytesOf(<usize>p.kind - 1);
}

/** Begins the state of a memory that is all zero. */
export function initPages(pageMax: u32): void {
  const s = state();
  s.pageEnd = pageFirst;
  s.pageMax = pageMax;
}

/** Bytes in use, the fixed ones included. */
export function usedBytes(): usize {
  return <usize>(state().pagesUsed + pageFirst) * pageBytes;
}

function unlinkFree(page: u32): void {
  const p = pageAt(page);
  if (p.previous != 0) pageAt(<u32>p.previous).next = p.next;
  else state().pageFree = <u32>p.next;
  if (p.next != 0) pageAt(<u32>p.next).previous = p.previous;
  p.isFree = 0;
}

function linkFree(page: u32): void {
  const s = state();
  const p = pageAt(page);
  p.cellFree = 0;
  p.kind = 0;
  p.isFree = 1;
  p.previous = 0;
  p.next = <u16>s.pageFree;
  if (s.pageFree != 0) pageAt(s.pageFree).previous = <u16>page;
  s.pageFree = page;
}

/** Extends the memory by pages at its end; 0 when the maximum is reached. */
function extend(pages: u32): u32 {
  const s = state();
  const page = s.pageEnd;
  // One page stays after the last: loads may go a little beyond what they are about.
  if (pages >= s.pageMax - page) return 0;
  const have = <u32>memory.size();
  if (page + pages >= have) {
    // More than asked, so that growing is rare, up to the maximum.
    const wanted = min(s.pageMax - have, max(page + pages + 1 - have, min(have >> 3, 1024)));
    if (memory.grow(<i32>wanted) < 0) return 0;
  }
  s.pageEnd = page + pages;
  return page;
}

/** First of so many pages side by side; 0 when there are none. */
function takePages(pages: u32): u32 {
  const s = state();
  let page: u32 = 0;
  if (pages == 1) {
    page = s.pageFree;
    if (page != 0) unlinkFree(page);
  } else {
    page = findRun(pages);
  }
  if (page == 0) page = extend(pages);
  if (page != 0) s.pagesUsed += pages;
  return page;
}

/** Free pages side by side, by looking from the beginning. Large allocations are rare. */
function findRun(pages: u32): u32 {
  const end = state().pageEnd;
  let length: u32 = 0;
  for (let page = pageFirst; page < end; page++) {
    length = pageAt(page).isFree ? length + 1 : 0;
    if (length < pages) continue;
    const first = page + 1 - pages;
    for (let i = first; i <= page; i++) unlinkFree(i);
    return first;
  }
  return 0;
}

/** Room for so many bytes, aligned to 16, not cleared; 0 when the memory is at its maximum. */
export function allocate(bytes: usize): usize {
  if (bytes > cellBytesMax) {
    const pages = <u32>((bytes + pageBytes - 1) / pageBytes);
    if (pages > 0xffff) return 0;
    const first = takePages(pages);
    if (first == 0) return 0;
    const p = pageAt(first);
    p.kind = 0;
    p.runPages = <u16>pages;
    return <usize>first * pageBytes;
  }
  const sizeClass = classOf(bytes);
  const list = classListsAt + (sizeClass << 2);
  let page = load<u32>(list);
  if (page == 0) {
    page = takePages(1);
    if (page == 0) return 0;
    const fresh = pageAt(page);
    fresh.cellFree = 0;
    fresh.cellFresh = 0;
    fresh.cellsFree = <u16>(pageBytes / cellBytesOf(sizeClass));
    fresh.kind = <u8>(sizeClass + 1);
    fresh.next = 0;
    fresh.previous = 0;
    store<u32>(list, page);
  }
  const p = pageAt(page);
  let cell = <usize>p.cellFree;
  if (cell != 0) p.cellFree = load<u32>(cell);
  else cell = <usize>page * pageBytes + <usize>(p.cellFresh++) * cellBytesOf(sizeClass);
  if (--p.cellsFree == 0) {
    store<u32>(list, <u32>p.next);
    if (p.next != 0) pageAt(<u32>p.next).previous = 0;
    p.next = 0;
  }
  return cell;
}

/** Gives a cell or run back. */
export function release(address: usize): void {
  const s = state();
  const page = <u32>(address / pageBytes);
  const p = pageAt(page);
  if (p.kind == 0) {
    const pages = <u32>p.runPages;
    for (let i: u32 = 0; i < pages; i++) linkFree(page + i);
    s.pagesUsed -= pages;
    return;
  }
  const sizeClass = <usize>p.kind - 1;
  const list = classListsAt + (sizeClass << 2);
  store<u32>(address, p.cellFree);
  p.cellFree = <u32>address;
  const cellsFree = ++p.cellsFree;
  if (cellsFree == 1) {
    const next = load<u32>(list);
    p.next = <u16>next;
    p.previous = 0;
    if (next != 0) pageAt(next).previous = <u16>page;
    store<u32>(list, page);
  } else if (<usize>cellsFree == pageBytes / cellBytesOf(sizeClass)) {
    // The last page of a class stays, so that one cell does not take and free a page again and
    // again.
    if (p.previous == 0 && p.next == 0) return;
    if (p.previous != 0) pageAt(<u32>p.previous).next = p.next;
    else store<u32>(list, <u32>p.next);
    if (p.next != 0) pageAt(<u32>p.next).previous = p.previous;
    linkFree(page);
    s.pagesUsed--;
  }
}

/** A region of at least so many bytes that keeps its place until a larger one is asked for. */
export function deskOf(bytes: usize): usize {
  const s = state();
  s.lookedTyped = 0;
  if (bytes <= s.deskBytes) return s.desk;
  if (s.desk != 0) release(s.desk);
  s.deskBytes = 0;
  s.desk = allocate(bytes);
  if (s.desk != 0) s.deskBytes = roomOf(bytes);
  return s.desk;
}

/** What was looked at last is kept up to this size when the next batch begins. */
const lookedBytesKept: usize = 64 << 10;

/** The same for the chunk that rows are compared with: it stays while the desk is used for others. */
export function lookedOf(bytes: usize): usize {
  const s = state();
  if (bytes <= s.lookedBytes) return s.looked;
  if (s.looked != 0) release(s.looked);
  s.lookedBytes = 0;
  s.looked = allocate(bytes);
  if (s.looked != 0) s.lookedBytes = roomOf(bytes);
  return s.looked;
}

/** Before the rows of a batch: what changes the memory in other ways says nothing of it. */
export function forgetLooked(): void {
  const s = state();
  s.lookedTyped = 0;
  s.lookedNode = 0;
  if (s.lookedBytes <= lookedBytesKept) return;
  release(s.looked);
  s.looked = 0;
  s.lookedBytes = 0;
}

/** A stage above this is not kept when less is asked for. */
const stageBytesKept: usize = 8 << 20;

/** The same for the caller's columns and answers. */
export function stageOf(bytes: usize): usize {
  const s = state();
  const isTooLarge = s.stageBytes > stageBytesKept && bytes <= stageBytesKept;
  if (s.stage != 0 && bytes <= s.stageBytes && !isTooLarge) return s.stage;
  if (s.stage != 0) release(s.stage);
  s.stageBytes = 0;
  s.stage = allocate(bytes);
  if (s.stage != 0) s.stageBytes = roomOf(bytes);
  return s.stage;
}

/** Lets go of work space above what is usual. */
export function trimDesk(bytesMax: usize): void {
  const s = state();
  if (s.deskBytes <= bytesMax) return;
  s.lookedTyped = 0;
  release(s.desk);
  s.desk = 0;
  s.deskBytes = 0;
}
