// A small Markdown reader: headings, lists, fenced code, inline code, bold and italics; everything else is text.
// It never fails and takes half-written text, because answers are shown while they are written.
// Leaves know where in the source they begin, so that a prompt and its continuation can be told apart.

export type Inline =
  | { kind: "text"; text: string; at: number }
  | { kind: "code"; text: string; at: number }
  | { kind: "strong" | "em"; children: Inline[] };

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

/** A block and the stretch of source it was read from: equal stretches give equal blocks. */
export interface Block {
  from: number;
  to: number;
  content: Content;
}

interface Line {
  text: string;
  at: number;
}

// Whatever is read here takes time in proportion to its length, since a model may write any number of spaces and marks.
const MARKER = /^(\s*)([-*+]|\d{1,9}[.)])\s+(?=\S)/;

export function parse(source: string): Block[] {
  const lines = split(source);
  const blocks: Block[] = [];
  let index = 0;
  while (index < lines.length) {
    const line = lines[index]!;
    if (!line.text.trim()) {
      index += 1;
      continue;
    }
    const [content, next] = readFence(lines, index) ?? readHeading(line, index) ?? readList(lines, index) ?? readParagraph(source, lines, index);
    const last = lines[next - 1]!;
    blocks.push({ from: line.at, to: last.at + last.text.length, content });
    index = next;
  }
  return blocks;
}

type Read = [content: Content, next: number];

function split(source: string): Line[] {
  const lines: Line[] = [];
  let at = 0;
  for (const text of source.split("\n")) {
    lines.push({ text, at });
    at += text.length + 1;
  }
  return lines;
}

function readFence(lines: Line[], index: number): Read | null {
  const fence = openFence(lines[index]!.text);
  if (!fence) return null;
  let end = index + 1;
  while (end < lines.length && !closesFence(lines[end]!.text, fence)) end += 1;
  const body = lines.slice(index + 1, end);
  const at = body[0]?.at ?? lines[index]!.at + lines[index]!.text.length;
  const content: Content = { kind: "fence", language: fence.language, text: body.map((line) => line.text).join("\n"), at };
  return [content, Math.min(end + 1, lines.length)];
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
  return { mark, length, language: rest.trim().split(/\s/, 1)[0]! };
}

function closesFence(text: string, { mark, length }: Fence): boolean {
  const indent = indentOf(text);
  if (indent > 3 || text[indent] !== mark) return false;
  const run = repeated(text, indent);
  return run >= length && indent + run === text.trimEnd().length;
}

function readHeading({ text, at }: Line, index: number): Read | null {
  const level = headingLevel(text);
  if (level === 0) return null;
  const behind = text.slice(indentOf(text) + level);
  const title = withoutHashes(behind).trimStart();
  const begin = text.length - behind.trimStart().length;
  return [{ kind: "heading", level, children: inline(title, at + begin) }, index + 1];
}

/** 0 where a line is no heading. */
function headingLevel(text: string): number {
  const indent = indentOf(text);
  if (indent > 3 || text[indent] !== "#") return 0;
  const level = repeated(text, indent);
  return level <= 6 && isSpace(text[indent + level]) ? level : 0;
}

/** Hashes may stand behind a title, with a space before them. */
function withoutHashes(text: string): string {
  const trimmed = text.trimEnd();
  let end = trimmed.length;
  while (trimmed[end - 1] === "#") end -= 1;
  return end < trimmed.length && isSpace(trimmed[end - 1]) ? trimmed.slice(0, end).trimEnd() : trimmed;
}

function indentOf(text: string): number {
  let indent = 0;
  while (text[indent] === " ") indent += 1;
  return indent;
}

/** How often the character at `index` stands there in a row. */
function repeated(text: string, index: number): number {
  let end = index + 1;
  while (text[end] === text[index] && end < text.length) end += 1;
  return end - index;
}

function isSpace(character: string | undefined): boolean {
  return character !== undefined && /\s/.test(character);
}

function readList(lines: Line[], index: number): [List, number] | null {
  const first = MARKER.exec(lines[index]!.text);
  if (!first) return null;
  const indent = first[1]!.length;
  const ordered = /\d/.test(first[2]!);
  const list: List = { kind: "list", ordered, start: ordered ? Number.parseInt(first[2]!, 10) : 1, items: [] };
  let next = index;
  while (next < lines.length) {
    const line = lines[next]!;
    const marker = MARKER.exec(line.text);
    const item = list.items.at(-1);
    if (marker && marker[1]!.length >= indent + 2 && item) {
      const nested = readList(lines, next)!;
      if (item.nested) item.nested.items.push(...nested[0].items);
      else item.nested = nested[0];
      next = nested[1];
    } else if (marker && marker[1]!.length >= indent && /\d/.test(marker[2]!) === ordered) {
      const text = line.text.slice(marker[0].length);
      list.items.push({ children: inline(text, line.at + marker[0].length), nested: null });
      next += 1;
    } else if (!marker && item && !item.nested && /^\s{2,}\S/.test(line.text)) {
      const text = line.text.trimStart();
      const at = line.at + line.text.length - text.length;
      item.children.push({ kind: "text", text: "\n", at: line.at - 1 }, ...inline(text, at));
      next += 1;
    } else if (!line.text.trim()) {
      const following = afterBlanks(lines, next);
      if (!belongs(lines[following], indent, ordered)) break;
      next = following;
    } else {
      break;
    }
  }
  return [list, next];
}

function afterBlanks(lines: Line[], index: number): number {
  let next = index;
  while (next < lines.length && !lines[next]!.text.trim()) next += 1;
  return next;
}

/** Blank lines stand inside a list where the next line that is not blank belongs to it. */
function belongs(line: Line | undefined, indent: number, ordered: boolean): boolean {
  const marker = line && MARKER.exec(line.text);
  if (!marker) return false;
  const depth = marker[1]!.length;
  return depth >= indent + 2 || (depth >= indent && /\d/.test(marker[2]!) === ordered);
}

function readParagraph(source: string, lines: Line[], index: number): Read {
  let next = index + 1;
  while (next < lines.length && isPlain(lines[next]!.text)) next += 1;
  const last = lines[next - 1]!;
  const at = lines[index]!.at;
  return [{ kind: "paragraph", children: inline(source.slice(at, last.at + last.text.length), at) }, next];
}

function isPlain(text: string): boolean {
  return text.trim() !== "" && !openFence(text) && headingLevel(text) === 0 && !MARKER.test(text);
}

/** Reads emphasis and code. A mark without its partner is text. */
export function inline(text: string, at: number): Inline[] {
  const nodes: Inline[] = [];
  let plain = 0;
  let index = 0;
  /** Kinds of marks that are not closed any more from here on: nothing behind needs to look for their end again. */
  const open: Open = new Set();
  const flush = (end: number) => {
    if (end > plain) nodes.push({ kind: "text", text: text.slice(plain, end), at: at + plain });
  };
  while (index < text.length) {
    const span = readCode(text, index, at, open) ?? readEmphasis(text, index, at, open);
    if (span) {
      flush(index);
      nodes.push(span.node);
      index = span.end;
      plain = index;
    } else {
      // A run of marks is one thing: what did not open at its first cannot open at its second.
      index += runLength(text, index);
    }
  }
  flush(text.length);
  return nodes;
}

type Open = Set<string>;

interface Span {
  node: Inline;
  end: number;
}

function runLength(text: string, index: number): number {
  const mark = text[index]!;
  return mark === "`" || mark === "*" || mark === "_" ? repeated(text, index) : 1;
}

function readCode(text: string, index: number, at: number, open: Open): Span | null {
  if (text[index] !== "`") return null;
  const length = runLength(text, index);
  const kind = `\`${length}`;
  if (open.has(kind)) return null;
  let close = text.indexOf("`", index + length);
  while (close !== -1) {
    const closing = runLength(text, close);
    if (closing === length) break;
    close = text.indexOf("`", close + closing);
  }
  if (close === -1) {
    open.add(kind);
    return null;
  }
  const inner = text.slice(index + length, close);
  const padded = length > 1 && inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
  const begin = index + length + (padded ? 1 : 0);
  return { node: { kind: "code", text: padded ? inner.slice(1, -1) : inner, at: at + begin }, end: close + length };
}

function readEmphasis(text: string, index: number, at: number, open: Open): Span | null {
  const mark = text[index]!;
  if (mark !== "*" && mark !== "_") return null;
  const length = Math.min(runLength(text, index), 3);
  const begin = index + length;
  if (begin >= text.length || isSpace(text[begin])) return null;
  // snake_case is a name, not emphasis.
  if (mark === "_" && isWord(text[index - 1])) return null;
  const kind = mark + length;
  if (open.has(kind)) return null;
  const close = findClosing(text, begin, mark, length, open);
  if (close === -1) {
    open.add(kind);
    return null;
  }
  const children = inline(text.slice(begin, close), at + begin);
  const end = close + length;
  if (length === 1) return { node: { kind: "em", children }, end };
  if (length === 2) return { node: { kind: "strong", children }, end };
  return { node: { kind: "strong", children: [{ kind: "em", children }] }, end };
}

function findClosing(text: string, begin: number, mark: string, length: number, open: Open): number {
  let index = begin;
  while (index < text.length) {
    if (text[index] === "`") {
      index = readCode(text, index, 0, open)?.end ?? index + runLength(text, index);
    } else if (text[index] === mark) {
      const run = runLength(text, index);
      const fits = run === length || (run > length && run >= 3);
      const free = mark !== "_" || !isWord(text[index + run]);
      if (fits && free && index > begin && !isSpace(text[index - 1])) return index + run - length;
      index += run;
    } else {
      index += 1;
    }
  }
  return -1;
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && /[\p{L}\p{N}_]/u.test(character);
}
