// Parses emphasis and code inside a block. Marks are paired in one pass over the text, with a stack of open ones.

export type Inline =
  | { kind: "text"; text: string; at: number }
  | { kind: "code"; text: string; at: number }
  | { kind: "strong" | "em"; children: Inline[] };

/** The deepest nesting of emphasis; deeper marks are text. */
export const MAX_EMPHASIS = 8;

const SPACE = /\s/;
const WORD = /[\p{L}\p{N}_]/u;

/** Whether there is a space at `index`. */
export function isSpace(text: string, index: number): boolean {
  const code = text.charCodeAt(index);
  if (code < 0x80) return code === 0x20 || (code >= 0x09 && code <= 0x0d);
  return SPACE.test(text.charAt(index));
}

function isWord(character: string | undefined): boolean {
  return character !== undefined && WORD.test(character);
}

/** Parses emphasis and code. A mark without a partner is text. */
export function inline(text: string, at: number): Inline[] {
  const { runs, spans } = scan(text);
  return build(text, at, [...pair(runs), ...spans].sort((a, b) => a.from - b.from));
}

/** A run of asterisks or underscores. Closing takes from the front of the remaining run, opening from its end. */
interface Run {
  mark: string;
  from: number;
  to: number;
  length: number;
  opens: boolean;
  closes: boolean;
}

/** Markup events: code is a leaf, emphasis has one event at each end. */
type Event =
  | { kind: "code"; from: number; to: number; width: number }
  | { kind: "strong" | "em"; from: number; to: number; closes: boolean };

interface Scan {
  runs: Run[];
  spans: Extract<Event, { kind: "code" }>[];
}

/** The runs of marks outside code, and the code. */
function scan(text: string): Scan {
  const ticks = partners(text);
  const runs: Run[] = [];
  const spans: Scan["spans"] = [];
  const marks = /`+|\*+|_+/g;
  for (let found = marks.exec(text); found; found = marks.exec(text)) {
    const from = found.index;
    const length = found[0].length;
    const mark = found[0][0]!;
    if (mark !== "`") {
      runs.push(runOf(text, mark, from, length));
      continue;
    }
    const close = ticks.get(from);
    if (close === undefined) continue;
    spans.push({ kind: "code", from, to: close + length, width: length });
    marks.lastIndex = close + length;
  }
  return { runs, spans };
}

/** For each run of backticks, the index of the next one of the same length. */
function partners(text: string): Map<number, number> {
  const next = new Map<number, number>();
  const last = new Map<number, number>();
  for (const { 0: run, index } of text.matchAll(/`+/g)) {
    const before = last.get(run.length);
    if (before !== undefined) next.set(before, index);
    last.set(run.length, index);
  }
  return next;
}

function runOf(text: string, mark: string, from: number, length: number): Run {
  const to = from + length;
  // snake_case is a name, not emphasis.
  const free = (neighbour: number) => mark !== "_" || !isWord(text[neighbour]);
  const opens = to < text.length && !isSpace(text, to) && free(from - 1);
  const closes = from > 0 && !isSpace(text, from - 1) && free(to);
  return { mark, from, to, length, opens, closes };
}

/** Pairs runs: each closes the nearest open run that matches. Runs in between stay text. */
function pair(runs: readonly Run[]): Event[] {
  const events: Event[] = [];
  const open: Run[] = [];
  /** For each kind of closing run, the depth of `open` known to contain no match, so that no run is searched repeatedly. */
  const floors = new Map<string, number>();
  for (const run of runs) {
    for (let opener; run.closes && run.length > 0 && (opener = findOpener(open, run, floors)); ) {
      close(events, opener, run);
      if (opener.length === 0) open.pop();
    }
    if (run.opens && run.length > 0) open.push(run);
  }
  return events;
}

/** The nearest run that `run` can close; those above it can no longer be closed. */
function findOpener(open: Run[], run: Run, floors: Map<string, number>): Run | null {
  const kind = `${run.mark}${run.opens}${widthOf(run) % 3}`;
  const floor = Math.min(floors.get(kind) ?? 0, open.length);
  for (let index = open.length - 1; index >= floor; index -= 1) {
    const opener = open[index]!;
    if (!fits(opener, run)) continue;
    open.length = index + 1;
    lower(floors, open.length);
    return opener;
  }
  floors.set(kind, open.length);
  return null;
}

/** Truncates the known depths to the stack's length. */
function lower(floors: Map<string, number>, length: number): void {
  for (const [kind, floor] of floors) if (floor >= length) floors.set(kind, length - 1);
}

/** `*a**b*` is emphasis around `a**b`: a run that could do both does not close one of another length by accident. */
function fits(opener: Run, run: Run): boolean {
  if (opener.mark !== run.mark) return false;
  const both = opener.closes || run.opens;
  return !both || (widthOf(opener) + widthOf(run)) % 3 !== 0 || (widthOf(opener) % 3 === 0 && widthOf(run) % 3 === 0);
}

const widthOf = ({ from, to }: Run) => to - from;

function close(events: Event[], opener: Run, run: Run): void {
  const odd = opener.length === 3 && run.length === 3;
  const width = opener.length >= 2 && run.length >= 2 && !odd ? 2 : 1;
  const kind = width === 2 ? "strong" : "em";
  const begin = opener.from + opener.length;
  const end = run.to - run.length;
  events.push({ kind, from: begin - width, to: begin, closes: false }, { kind, from: end, to: end + width, closes: true });
  opener.length -= width;
  run.length -= width;
}

/** Builds nodes from events in text order. */
function build(text: string, at: number, events: readonly Event[]): Inline[] {
  const root: Inline[] = [];
  /** The enclosing emphasis; null if it is nested too deeply and its marks are text. */
  const around: (Inline[] | null)[] = [];
  let nodes = root;
  let depth = 0;
  let plain = 0;
  const flush = (end: number) => {
    if (end > plain) nodes.push({ kind: "text", text: text.slice(plain, end), at: at + plain });
  };
  for (const event of events) {
    const isTooDeep = event.kind !== "code" && (event.closes ? around.at(-1) === null : depth === MAX_EMPHASIS);
    if (event.kind !== "code" && isTooDeep) {
      if (event.closes) around.pop();
      else around.push(null);
      continue;
    }
    flush(event.from);
    plain = event.to;
    if (event.kind === "code") {
      nodes.push(codeOf(text, at, event.from, event.to, event.width));
    } else if (event.closes) {
      depth -= 1;
      nodes = around.pop()!;
    } else {
      const children: Inline[] = [];
      nodes.push({ kind: event.kind, children });
      around.push(nodes);
      nodes = children;
      depth += 1;
    }
  }
  flush(text.length);
  return root;
}

function codeOf(text: string, at: number, from: number, to: number, width: number): Inline {
  const inner = text.slice(from + width, to - width);
  const isPadded = width > 1 && inner.startsWith(" ") && inner.endsWith(" ") && inner.trim() !== "";
  const begin = from + width + (isPadded ? 1 : 0);
  return { kind: "code", text: isPadded ? inner.slice(1, -1) : inner, at: at + begin };
}
