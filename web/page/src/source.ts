// The source of a model: a URL, or files that were dropped or chosen.

import { shorten } from "./format.js";

export interface UrlSource {
  kind: "url";
  name: string;
  url: string;
  /** Set if the user was not asked: then redirects fail. */
  unasked?: true;
  /** The digest of its manifest, if the page knows it. */
  integrity?: string;
}

export interface FileSource {
  kind: "files";
  name: string;
  program: File;
  data: File[];
  tokenizer?: File;
  tokenizerConfig?: File;
  template?: File;
  sidecar?: File;
}

export type ModelSource = UrlSource | FileSource;

export type FileSet = Partial<Omit<FileSource, "kind" | "name" | "data">> & { data: File[]; unknown: File[] };

type Role = Exclude<keyof FileSet, "data" | "unknown">;

function roleOf(name: string): Role | "data" | null {
  const lower = name.toLowerCase();
  if (lower.endsWith(".pte")) return "program";
  if (lower.endsWith(".ptd")) return "data";
  if (lower === "tokenizer_config.json") return "tokenizerConfig";
  if (lower.endsWith(".jinja")) return "template";
  if (lower === "pteron.json") return "sidecar";
  if (lower.endsWith(".tiktoken") || /tokenizer.*\.(json|model)$/.test(lower) || lower.endsWith(".model")) return "tokenizer";
  return null;
}

/** Classifies files by name. Of two files of the same kind, the last one counts. */
export function sortFiles(files: Iterable<File>): FileSet {
  const set: FileSet = { data: [], unknown: [] };
  for (const file of files) {
    const role = roleOf(file.name);
    if (role === null) set.unknown.push(file);
    else if (role === "data") set.data.push(file);
    else set[role] = file;
  }
  return set;
}

/**
 * Combines `files` to a model. Files without a program are added to those of `before`, so that a forgotten tokenizer
 * may be dropped afterwards. Returns a message if they are not a model.
 */
export function sourceFromFiles(files: Iterable<File>, before: FileSource | null): FileSource | string {
  const { unknown, data, ...parts } = sortFiles(files);
  const [stranger] = unknown;
  if (parts.program) {
    return { kind: "files", ...parts, program: parts.program, name: shownName(stem(parts.program.name)), data };
  }
  const useful = data.length > 0 || Object.keys(parts).length > 0;
  if (useful && before) {
    return { ...before, ...parts, program: before.program, data: data.length > 0 ? data : before.data };
  }
  if (stranger) return `“${shownName(stranger.name)}” is not a .pte program, a .ptd file or a tokenizer.`;
  return "There is no .pte program among these files: drop it together with its tokenizer.";
}

/** Completes a URL that the user typed, or returns an error message. */
export function sourceFromText(text: string, base: string): UrlSource | string {
  const trimmed = text.trim();
  if (!trimmed) return "Type the address of a .pte file.";
  let url: URL;
  try {
    url = new URL(trimmed, base);
  } catch {
    return `“${shownName(trimmed)}” is not an address.`;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") {
    return `Addresses begin with https:// or http://, not ${shorten(url.protocol, 40)}`;
  }
  if (url.username || url.password) return "Addresses with a name or a password in them are not fetched.";
  return { kind: "url", name: nameOf(url), url: url.href };
}

/** Whether a URL is in the folder of the page or below it, and so belongs to the page's owner. */
export function isOwn({ url }: UrlSource, base: string): boolean {
  const { origin, pathname } = new URL(url);
  const folder = new URL(".", base);
  // Some servers decode an encoded slash, which could lead out of the folder.
  return origin === folder.origin && pathname.startsWith(folder.pathname) && !/%2f|%5c/i.test(pathname);
}

/** Splits a URL into its origin, which is never cut, and the rest. Both are ASCII, as browsers send them. */
export function shownAddress({ url }: UrlSource): { origin: string; path: string } {
  const { origin, pathname, search } = new URL(url);
  return { origin, path: shorten(pathname + search, 96) };
}

const MAX_NAME = 80;

/** A name for display: without characters that change the text direction or break the line, and at most one line long. */
function shownName(name: string): string {
  return shorten(name.slice(0, 4096).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, ""), MAX_NAME);
}

function stem(name: string): string {
  return name.replace(/\.pte$/i, "");
}

/** A model's name: that of its file, or of the folder if the file has the usual name. */
function nameOf(url: URL): string {
  const parts = url.pathname.split("/").filter(Boolean).map(decode);
  const file = stem(parts.at(-1) ?? url.host);
  return shownName(file === "model" ? (parts.at(-2) ?? url.host) : file);
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
