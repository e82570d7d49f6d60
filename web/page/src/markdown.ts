// A small Markdown parser: headings, lists, fenced code, inline code, bold and italics; everything else is text.
// It never fails and accepts incomplete text, because replies are shown while they are generated.
// Leaves store their offset in the source, so that a prompt and its continuation can be told apart.
//
// The text is a model's, so it may be anything: time is linear in its length, and nesting has a limit (`MAX_DEPTH`), so that
// nothing that walks the result runs out of stack.

import { inline, isSpace, type Inline } from "./inline.js";

export { inline, type Inline } from "./inline.js";

export interface Item {
  children: Inline[];
  nested: List | null;
}

export interface List {
  kind: "list";
  ordered: boolean;
  start: number;
  items: Item[];
}

export type Content =
  | { kind: "paragraph"; children: Inline[] }
  | { kind: "heading"; level: number; children: Inline[] }
  | { kind: "fence"; language: string; text: string; at: number }
  | List;

/** A block and the source range it was parsed from: equal ranges give equal blocks. */
export interface Block {
  from: number;
  to: number;
  content: Content;
}

/** The deepest nesting of lists. Items that are indented further join the deepest list. */
export const MAX_DEPTH = 16;

/** The longest language name of a code fence. */
const MAX_LANGUAGE = 32;

interface Line {
  text: string;
  at: number;
  /** The start of the next line; one past the end of the source after the last line. */
  next: number;
}

interface Read {
  content: Content;
  /** The end of the block's last line, and the beginning of the line after it. */
  to: number;
  next: number;
}

/** Parses the blocks from `from` on, which must be the start of a block or of the source. */
export function parse(source: string, from = 0): Block[] {
  const blocks: Block[] = [];
  for (let line = lineAt(source, from); line; ) {
    if (isBlank(line.text)) {
      line = lineAt(source, line.next);
      continue;
    }
    const { content, to, next } = readFence(source, line) ?? readHeading(line) ?? readList(source, line) ?? readParagraph(source, line);
    blocks.push({ from: line.at, to, content });
    line = lineAt(source, next);
  }
  return blocks;
}

/** The line that starts at an offset; null after the last. */
function lineAt(source: string, at: number): Line | null {
  if (at > source.length) return null;
  const end = source.indexOf("\n", at);
  const to = end === -1 ? source.length : end;
  return { text: source.slice(at, to), at, next: to + 1 };
}

const endOf = (line: Line) => line.at + line.text.length;

function isBlank(text: string): boolean {
  return text.trim() === "";
}

function readFence(source: string, first: Line): Read | null {
  const fence = openFence(first.text);
  if (!fence) return null;
  const at = Math.min(first.next, source.length);
  const content = (to: number): Content => ({ kind: "fence", language: fence.language, text: source.slice(at, Math.max(at, to)), at });
  let last = first;
  for (let line = lineAt(source, first.next); line; line = lineAt(source, line.next)) {
    if (closesFence(line.text, fence)) return { content: content(line.at - 1), to: endOf(line), next: line.next };
    last = line;
  }
  return { content: content(source.length), to: endOf(last), next: source.length + 1 };
}

interface Fence {
  mark: string;
  length: number;
  language: string;
}

function openFence(text: string): Fence | null {
  const indent = indentOf(text);
  const mark = text[indent];
  if (mark !== "`" && mark !== "~") return null;
  const length = repeated(text, indent);
  const rest = text.slice(indent + length);
  if (indent > 3 || length < 3 || rest.includes("`")) return null;
  return { mark, length, language: rest.trim().slice(0, MAX_LANGUAGE).split(/\s/, 1)[0]! };
}

function closesFence(text: string, { mark, length }: Fence): boolean {
  const indent = indentOf(text);
  if (indent > 3 || text[indent] !== mark) return false;
  const run = repeated(text, indent);
  return run >= length && indent + run === text.trimEnd().length;
}

function readHeading(line: Line): Read | null {
  const { text, at, next } = line;
  const level = headingLevel(text);
  if (level === 0) return null;
  const rest = text.slice(indentOf(text) + level);
  const title = withoutHashes(rest).trimStart();
  const begin = text.length - rest.trimStart().length;
  return { content: { kind: "heading", level, children: inline(title, at + begin) }, to: endOf(line), next };
}

/** The heading level of a line; 0 if it is no heading. */
function headingLevel(text: string): number {
  const indent = indentOf(text);
  if (indent > 3 || text[indent] !== "#") return 0;
  const level = repeated(text, indent);
  return level <= 6 && isSpace(text, indent + level) ? level : 0;
}

/** Removes hashes after a title, which need a space before them. */
function withoutHashes(text: string): string {
  const trimmed = text.trimEnd();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") end -= 1;
  return end < trimmed.length && isSpace(trimmed, end - 1) ? trimmed.slice(0, end).trimEnd() : trimmed;
}

function indentOf(text: string): number {
  let indent = 0;
  while (text[indent] === " ") indent += 1;
  return indent;
}

/** The length of the run of the character at `index`. */
function repeated(text: string, index: number): number {
  let end = index + 1;
  while (end < text.length && text[end] === text[index]) end += 1;
  return end - index;
}

/** The marker of a list item: its indentation, its number and the start of its text. */
interface Marker {
  indent: number;
  ordered: boolean;
  number: number;
  begin: number;
}

function markerOf(text: string): Marker | null {
  const indent = skipSpaces(text, 0);
  const width = markWidth(text, indent);
  if (width === 0) return null;
  const begin = skipSpaces(text, indent + width);
  if (begin === indent + width || begin === text.length) return null;
  const ordered = width > 1;
  return { indent, ordered, number: ordered ? Number.parseInt(text.slice(indent, indent + width), 10) : 1, begin };
}

/** The length of a marker `-`, `*`, `+`, `1.` or `1)`, with at most nine digits; 0 if there is none. */
function markWidth(text: string, at: number): number {
  const mark = text[at];
  if (mark === "-" || mark === "*" || mark === "+") return 1;
  let digits = 0;
  while (digits < 9 && text[at + digits]! >= "0" && text[at + digits]! <= "9") digits += 1;
  const next = text[at + digits];
  return digits > 0 && (next === "." || next === ")") ? digits + 1 : 0;
}

function skipSpaces(text: string, at: number): number {
  let index = at;
  while (index < text.length && isSpace(text, index)) index += 1;
  return index;
}

/** An open list, which may get more items. */
interface OpenList {
  list: List;
  indent: number;
  ordered: boolean;
}

/** Open lists, outermost first. Each line visits the lists that it closes and one more, so that the total time is linear. */
function readList(source: string, first: Line): Read | null {
  const marker = markerOf(first.text);
  if (!marker) return null;
  const list = listOf(marker);
  const open: OpenList[] = [{ list, indent: marker.indent, ordered: marker.ordered }];
  let end = first;
  for (let line: Line | null = first; line; line = lineAt(source, line.next)) {
    const found = markerOf(line.text);
    if (found) {
      if (!addItem(open, found, line)) break;
    } else if (isBlank(line.text)) {
      line = lastBlank(source, line);
      continue;
    } else if (end.next !== line.at || !continueItem(open.at(-1)!, line)) {
      break;
    }
    end = line;
  }
  return { content: list, to: endOf(end), next: end.next };
}

const listOf = ({ ordered, number }: Marker): List => ({ kind: "list", ordered, start: number, items: [] });

/** Adds an item to the open list it belongs to; false if there is none. */
function addItem(open: OpenList[], marker: Marker, { text, at }: Line): boolean {
  const isInside = ({ indent, list }: OpenList) => marker.indent >= indent + 2 && list.items.length > 0;
  const isNext = ({ indent, ordered }: OpenList) => marker.indent >= indent && marker.ordered === ordered;
  while (open.length > 0 && !isInside(open.at(-1)!) && !isNext(open.at(-1)!)) open.pop();
  const top = open.at(-1);
  if (!top) return false;
  let { list } = top;
  if (isInside(top) && open.length < MAX_DEPTH) {
    list = list.items.at(-1)!.nested ??= listOf(marker);
    open.push({ list, indent: marker.indent, ordered: marker.ordered });
  }
  list.items.push({ children: inline(text.slice(marker.begin), at + marker.begin), nested: null });
  return true;
}

/** An indented line continues the last item. */
function continueItem({ list }: OpenList, { text, at }: Line): boolean {
  const begin = skipSpaces(text, 0);
  if (begin < 2) return false;
  const { children } = list.items.at(-1)!;
  children.push({ kind: "text", text: "\n", at: at - 1 });
  for (const node of inline(text.slice(begin), at + begin)) children.push(node);
  return true;
}

function lastBlank(source: string, blank: Line): Line {
  let last = blank;
  for (let line = lineAt(source, blank.next); line && isBlank(line.text); line = lineAt(source, line.next)) last = line;
  return last;
}

function readParagraph(source: string, first: Line): Read {
  let last = first;
  for (let line = lineAt(source, first.next); line && isPlain(line.text); line = lineAt(source, line.next)) last = line;
  const to = endOf(last);
  return { content: { kind: "paragraph", children: inline(source.slice(first.at, to), first.at) }, to, next: last.next };
}

function isPlain(text: string): boolean {
  return !isBlank(text) && !openFence(text) && headingLevel(text) === 0 && !markerOf(text);
}
