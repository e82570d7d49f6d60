import { PteronError } from "./errors.js";
import { Digests, IntegrityError, isDigests, type Manifest, parseManifest, type Pins, sha256, type Verifier } from "./integrity.js";
import { type FetchOptions, readFile, urlOf } from "./open.js";
import type { Source } from "./source.js";
import { readPins, writePins } from "./store.js";

/** The URL of a model's manifest: the model's with a suffix. */
function manifestUrl(model: string): URL {
  const url = new URL(model);
  url.pathname += ".manifest.json";
  return url;
}

/** The expected digests of a model's files: from the caller's manifest, or from an earlier load. */
export async function openDigests(source: Source, options: FetchOptions): Promise<Digests> {
  const url = urlOf(source);
  const { integrity } = options;
  const manifest = integrity === undefined ? null : await manifestOf(integrity, url, source, options);
  const pins = url !== null && options.cache !== false ? cleanPins(await readPins(url)) : null;
  return new Digests(manifest, pins, options.revalidate === true);
}

async function manifestOf(integrity: string | Manifest, url: string | null, source: Source, options: FetchOptions): Promise<Manifest> {
  if (typeof integrity !== "string") return parseManifest(integrity, "the option integrity");
  const isDigest = /^sha256-[A-Za-z0-9+/]{43}=$/.test(integrity);
  if (!isDigest) throw new PteronError("input", "integrity must be a manifest, or the digest of one: sha256- and 44 characters");
  if (url === null) throw new PteronError("input", "integrity must be a manifest where the model does not come from an address");
  const place = manifestUrl(url);
  return parse(await readFile(place, source, options, new Whole(integrity)), place.href);
}

/** Compares a file as a whole with the digest that the caller gave. */
class Whole implements Verifier {
  readonly #integrity: string;
  #bytes = new Uint8Array(0);

  constructor(integrity: string) {
    this.#integrity = integrity;
  }

  async check(file: string, size: number, start: number, block: Uint8Array<ArrayBuffer>, cached: boolean): Promise<void> {
    if (start === 0) this.#bytes = new Uint8Array(size);
    this.#bytes.set(block, start);
    if (start + block.length < size) return;
    const actual = `sha256-${await sha256(this.#bytes)}`;
    if (actual !== this.#integrity) throw new IntegrityError(file, "it", [this.#integrity, actual], "the option integrity", cached);
  }
}

function parse(bytes: Uint8Array | null, name: string): Manifest {
  let value: unknown = null;
  try {
    value = JSON.parse(new TextDecoder().decode(bytes ?? undefined));
  } catch {
    // It is rejected below, with a message.
  }
  return parseManifest(value, name);
}

/** Parses stored pins; malformed ones count as none. */
function cleanPins(value: unknown): Pins {
  return Object.fromEntries(Object.entries(value ?? {}).filter(([, pin]) => pin === null || isDigests(pin)));
}

/** Stores the digests that a load saw, for the next load to compare with. */
export async function keepPins(source: Source, digests: Digests): Promise<void> {
  const url = urlOf(source);
  const pins = digests.pins();
  if (url !== null && pins) await writePins(url, pins);
}
