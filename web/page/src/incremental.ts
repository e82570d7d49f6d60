// Reads a text again and again while it grows, without reading what cannot change any more.

import { parse, type Block } from "./markdown.js";

/**
 * The part that is read again may be one endless block. It is due when it has grown by this share, so that all readings together
 * are linear in the length of the text; up to this many characters, every one is due.
 */
const SHARE = 512;

/** The blocks of a text that grows at its end. */
export class IncrementalMarkdown {
  /** Characters that were read so far, those that were read again counted again. */
  work = 0;
  #text = "";
  #blocks: Block[] = [];

  /** Whether reading `text` is worth it by now; the last word of a text has to be read in any case. */
  isDue(text: string): boolean {
    const from = this.#blocks[this.#settled()]?.from ?? 0;
    return (text.length - this.#text.length) * SHARE >= this.#text.length - from;
  }

  /** The blocks of `text`, and how many of them at the beginning are the same as before. */
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
   * How many blocks at the beginning stay as they are, whatever is written behind. A line may still become something else until
   * it ends, and may then belong to the block before it: so the last two blocks are open.
   */
  #settled(): number {
    return Math.max(0, this.#blocks.length - 2);
  }
}

/** Whether two blocks of a text and of its continuation are the same: the text between equal places is. */
function isSame(old: Block | undefined, now: Block | undefined): boolean {
  return !!old && !!now && old.from === now.from && old.to === now.to && old.content.kind === now.content.kind;
}
