// Parses a growing text incrementally: blocks that can no longer change are not parsed again.

import { parse, type Block } from "./markdown.js";

/**
 * The part that is parsed again may be one endless block. It is parsed when it has grown by this share, so that all passes together
 * are linear in the length of the text; up to this many characters, every change is parsed.
 */
const SHARE = 512;

/** The blocks of a text that grows at its end. */
export class IncrementalMarkdown {
  /** Characters parsed so far, counting repeated ones each time. */
  work = 0;
  #text = "";
  #blocks: Block[] = [];

  /** Whether `text` has grown enough to be parsed; the final text must be parsed in any case. */
  isDue(text: string): boolean {
    const from = this.#blocks[this.#settled()]?.from ?? 0;
    return (text.length - this.#text.length) * SHARE >= this.#text.length - from;
  }

  /** Returns the blocks of `text`, and how many of the first ones are unchanged. */
  update(text: string): { blocks: readonly Block[]; same: number } {
    const isLonger = text.startsWith(this.#text);
    const kept = isLonger ? this.#settled() : 0;
    const open = this.#blocks.splice(kept);
    const from = isLonger ? (open[0]?.from ?? 0) : 0;
    for (const block of parse(text, from)) this.#blocks.push(block);
    this.#text = text;
    this.work += text.length - from;
    let same = kept;
    if (isLonger) while (isSame(open[same - kept], this.#blocks[same])) same += 1;
    return { blocks: this.#blocks, same };
  }

  /**
   * The number of blocks at the start that later text cannot change. A line may still change its kind until it ends, and may then
   * belong to the block before it: so the last two blocks are open.
   */
  #settled(): number {
    return Math.max(0, this.#blocks.length - 2);
  }
}

/** Whether a block of a text and one of its continuation are the same: equal ranges hold equal text. */
function isSame(old: Block | undefined, now: Block | undefined): boolean {
  return !!old && !!now && old.from === now.from && old.to === now.to && old.content.kind === now.content.kind;
}
