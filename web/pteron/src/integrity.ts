import { FileError, PteronError } from "./errors.js";
import type { ByteSource, Chunk } from "./source.js";

/** Files are hashed in blocks of this many bytes, so that tables are checked without the weights around them. */
export const BLOCK = 256 << 10;

/** The length of a file, and the SHA-256 of each of its blocks of 256 KiB, in base64. */
export interface FileDigests {
  length: number;
  /** Null for blocks that were never read; a manifest has all of them. */
  blocks: readonly (string | null)[];
}

/** The files of a model by their names, as `pteron-manifest` writes them into `model.pte.manifest.json`. */
export interface Manifest {
  version: number;
  files: Readonly<Record<string, FileDigests>>;
}

/** A file does not match its manifest or an earlier visit. */
export class IntegrityError extends FileError {
  /** The expected digest or length. */
  readonly expected: string;
  /** The actual digest or length. */
  readonly actual: string;
  /** @internal Whether the bytes came from the cache: then the server may have the right ones. */
  readonly cached: boolean;

  constructor(file: string, what: string, [expected, actual]: [string, string], by: string, cached = false) {
    super("integrity", file, `${file}: ${what} should have ${expected} by ${by}, and has ${actual}; ${REMEDY}`);
    this.expected = expected;
    this.actual = actual;
    this.cached = cached;
  }
}

const REMEDY = "it was changed or damaged. To accept a new version, load it with revalidate: true, or with the integrity of that version";

export async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return btoa(String.fromCharCode(...new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))));
}

/** Checks a block of a file of the given length before its bytes are used. */
export interface Verifier {
  check(file: string, size: number, start: number, bytes: Uint8Array<ArrayBuffer>, cached: boolean): Promise<void>;
}

/** The digests seen on an earlier visit, by URL; null if the server had no such file. */
export type Pins = Readonly<Record<string, FileDigests | null>>;

const PINNED = "an earlier load on this device";

/** The expected digests of a model's files, and those seen in this load. */
export class Digests implements Verifier {
  /** The caller's manifest. It must list every file, and overrides digests of an earlier visit. */
  readonly #manifest: Manifest | null;
  /** Whether files may differ from those of an earlier visit. */
  readonly #accept: boolean;
  /** Null if nothing is stored between visits. */
  readonly #pins: Pins | null;
  #seen = new Map<string, { length: number; blocks: (string | null)[] } | null>();

  constructor(manifest: Manifest | null, pins: Pins | null, accept: boolean) {
    this.#manifest = manifest;
    this.#pins = pins;
    this.#accept = accept;
  }

  /** Whether files are compared, now or on the next visit. */
  get isActive(): boolean {
    return !!(this.#manifest ?? this.#pins);
  }

  /** Drops the digests seen in a failed attempt. */
  begin(): void {
    this.#seen.clear();
  }

  /** Whether to request an optional file beside the model. */
  mayExist(url: string): boolean {
    return !this.#manifest || this.#listed(url) !== null;
  }

  #listed(file: string): FileDigests | null {
    const name = baseName(file);
    const files = this.#manifest?.files ?? {};
    return Object.hasOwn(files, name) ? (files[name] ?? null) : null;
  }

  #pinned(file: string): FileDigests | null | undefined {
    return !this.#manifest && this.#pins && Object.hasOwn(this.#pins, file) ? this.#pins[file] : undefined;
  }

  async check(file: string, size: number, start: number, bytes: Uint8Array<ArrayBuffer>, cached: boolean): Promise<void> {
    if (!this.isActive) return;
    const listed = this.#listed(file);
    if (this.#manifest && !listed) throw new FileError("integrity", file, `${file} is not in the manifest`);
    const pinned = this.#pinned(file);
    const isPinned = pinned !== undefined && (cached || !this.#accept);
    const known = listed ?? (isPinned ? pinned : undefined);
    const refuse = (what: string, expected: string, actual: string) => {
      throw new IntegrityError(file, what, [expected, actual], listed ? "the manifest" : PINNED, cached);
    };
    if (known !== undefined && known?.length !== size) refuse("it", known ? `${known.length} bytes` : "no bytes", `${size}`);
    const seen = this.#seen.get(file) ?? { length: size, blocks: [] };
    if (bytes.length > 0) {
      const index = start / BLOCK;
      const actual = await sha256(bytes);
      const expected = known?.blocks[index];
      if (expected != null && expected !== actual) refuse(`the block at ${start}`, `sha256-${expected}`, `sha256-${actual}`);
      while (seen.blocks.length < index) seen.blocks.push(null);
      seen.blocks[index] = actual;
    }
    this.#seen.set(file, seen);
  }

  /** Records that an optional file beside the model is missing. Fails if it is listed or was there before. */
  checkAbsence(file: string, reason: unknown): void {
    if (this.#listed(file) ?? (!this.#accept && this.#pinned(file))) throw reason;
    if (reason instanceof PteronError && reason.code === "no-such-file") this.#seen.set(file, null);
  }

  /** The digests to store for the next visit; null if nothing is new. */
  pins(): Pins | null {
    if (!this.#pins) return null;
    const pins: Record<string, FileDigests | null> = { ...this.#pins };
    for (const [file, seen] of this.#seen) pins[file] = seen && merge(seen, this.#pinned(file));
    return JSON.stringify(pins) === JSON.stringify(this.#pins) ? null : pins;
  }
}

/** Merges the digests seen now with earlier ones if the file is the same. */
function merge(seen: FileDigests, before: FileDigests | null | undefined): FileDigests {
  const isSame = before?.length === seen.length && seen.blocks.every((block, i) => !block || !before.blocks[i] || block === before.blocks[i]);
  if (!before || !isSame) return seen;
  const count = Math.max(seen.blocks.length, before.blocks.length);
  return { length: seen.length, blocks: Array.from({ length: count }, (_, i) => seen.blocks[i] ?? before.blocks[i] ?? null) };
}

/** The name of a file in a manifest: the last part of its URL. */
function baseName(file: string): string {
  const last = file.replace(/[?#].*$/s, "").split("/").pop()!;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** Reads a byte range of a file in whole blocks, and checks each block before returning its bytes. */
export async function* readBlocks(
  file: ByteSource,
  [start, end]: [number, number],
  verifier: Verifier,
  signal?: AbortSignal,
): AsyncGenerator<Chunk> {
  const size = await file.size(signal);
  const from = start - (start % BLOCK);
  const to = Math.max(end, Math.min(size, Math.ceil(end / BLOCK) * BLOCK));
  let block = new Uint8Array(Math.min(BLOCK, to - from));
  let at = from;
  let filled = 0;
  let cached = false;
  for await (const chunk of file.read(from, to, signal)) {
    cached ||= chunk.cached && file.remote;
    for (let taken = 0; taken < chunk.bytes.length && block.length > 0; ) {
      const piece = chunk.bytes.subarray(taken, taken + block.length - filled);
      block.set(piece, filled);
      taken += piece.length;
      filled += piece.length;
      if (filled < block.length) continue;
      signal?.throwIfAborted();
      await verifier.check(file.name, size, at, block, cached);
      const bytes = block.subarray(Math.max(0, start - at), end - at);
      if (bytes.length > 0) yield { start: Math.max(start, at), bytes, cached: chunk.cached };
      at += block.length;
      filled = 0;
      block = new Uint8Array(Math.min(BLOCK, to - at));
    }
  }
  if (from === to) await verifier.check(file.name, size, from, block, cached);
}

/** Returns all of these bytes at once. */
export async function readChecked(
  file: ByteSource,
  [start, end]: [number, number],
  verifier: Verifier,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const all = new Uint8Array(end - start);
  for await (const chunk of readBlocks(file, [start, end], verifier, signal)) all.set(chunk.bytes, chunk.start - start);
  return all;
}

/** Parses a manifest, or throws the reason why it is invalid. */
export function parseManifest(value: unknown, name: string): Manifest {
  const { version, files } = (value ?? {}) as Partial<Manifest>;
  const isWhole = (entry: unknown) => isDigests(entry) && entry.blocks.length === Math.ceil(entry.length / BLOCK) && !entry.blocks.includes(null);
  if (version === 1 && typeof files === "object" && files && Object.values(files).every(isWhole)) return { version, files };
  throw new PteronError("bad-file", `${name} is not a manifest of version 1: pteron-manifest writes one`);
}

export function isDigests(value: unknown): value is FileDigests {
  const { length, blocks } = (value ?? {}) as Partial<FileDigests>;
  return Number.isSafeInteger(length) && length! >= 0 && Array.isArray(blocks) && blocks.every((block) => block === null || typeof block === "string");
}
