import type { LlmFiles } from "./engine.js";
import type { Digests } from "./integrity.js";
import { type FetchOptions, readFile, urlOf } from "./open.js";
import type { Source } from "./source.js";

/** What stands beside a language model. Without these, files with the usual names are looked for beside a model's address. */
export interface SideFiles {
  /** `tokenizer.json`, `tokenizer.model` of SentencePiece or tiktoken. False: this is no language model, or is called plainly. */
  tokenizer?: Source | false;
  /** `tokenizer_config.json`: the chat template and the names of special tokens. */
  tokenizerConfig?: Source;
  /** `chat_template.jinja`: its address, its file, or the template itself (a string with `{{` or `{%` in it). */
  template?: Source;
  /** `pteron.json`: facts that the program does not say. */
  sidecar?: Source;
}

/** The names under which the command line program looks for them, too. */
const TOKENIZERS = ["tokenizer.json", "tokenizer.model"];
const CONFIG = "tokenizer_config.json";
const TEMPLATE = "chat_template.jinja";
const SIDECAR = "pteron.json";

/** The tokenizer, and the texts beside it. */
export interface LlmSide {
  /** Null where there is none. */
  tokenizer: Uint8Array | null;
  files: LlmFiles;
  /** What the server said where it did not hand out a tokenizer that may be there. */
  refusal: string | null;
}

export const NO_SIDE: LlmSide = { tokenizer: null, files: {}, refusal: null };

/** Why there is no tokenizer, for the error of a session. */
export function noTokenizer(model: Source, refusal: string | null): string {
  const where = urlOf(model);
  if (!where) return "a session needs a tokenizer: give the option tokenizer (a file or an address)";
  const said = refusal === null ? "" : ` (${refusal})`;
  const missing = `beside ${where} there is neither ${TOKENIZERS.join(" nor ")}${said}`;
  return `a session needs a tokenizer: ${missing}; give the option tokenizer`;
}

/** Reads what a language model needs besides the program. */
export async function readSideFiles(model: Source, given: SideFiles, options: FetchOptions, digests: Digests): Promise<LlmSide> {
  if (given.tokenizer === false) return NO_SIDE;
  const base = urlOf(model);
  let refusal: string | null = null;
  const read = (source: Source) => readFile(source, model, options, digests);
  const find = (name: string, refused: (reason: string) => void) => {
    const url = base === null ? null : new URL(name, base);
    return url && digests.mayExist(url.href) ? readFile(url, model, options, digests, refused) : null;
  };
  const text = async (source: Source | undefined, name: string) => {
    const bytes = await (source === undefined ? find(name, () => {}) : read(source));
    return bytes && new TextDecoder().decode(bytes);
  };
  const findTokenizer = async () => {
    if (given.tokenizer) return read(given.tokenizer);
    for (const name of TOKENIZERS) {
      const found = await find(name, (reason) => (refusal ??= reason));
      if (found) return found;
    }
    return null;
  };
  const inline = typeof given.template === "string" && /\{[{%]/.test(given.template) ? given.template : null;
  const [tokenizer, tokenizerConfig, template, sidecar] = await Promise.all([
    findTokenizer(),
    text(given.tokenizerConfig, CONFIG),
    inline ?? text(given.template, TEMPLATE),
    text(given.sidecar, SIDECAR),
  ]);
  const files = { ...(tokenizerConfig && { tokenizerConfig }), ...(template && { template }), ...(sidecar && { sidecar }) };
  return { tokenizer, files, refusal };
}
