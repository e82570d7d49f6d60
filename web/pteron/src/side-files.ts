import type { LlmFiles } from "./engine.js";
import type { Digests } from "./integrity.js";
import { type FetchOptions, readFile, urlOf } from "./open.js";
import type { Source } from "./source.js";

/** Files beside a language model. By default, files with the usual names are looked for beside the model's URL. */
export interface SideFiles {
  /** `tokenizer.json`, or `tokenizer.model` of SentencePiece or tiktoken. False loads the program without a tokenizer. */
  tokenizer?: Source | false;
  /** `tokenizer_config.json`: the chat template and the names of special tokens. */
  tokenizerConfig?: Source;
  /** `chat_template.jinja`: its URL, its file, or the template itself (a string that contains `{{` or `{%`). */
  template?: Source;
  /** `pteron.json`: metadata that the program does not contain. */
  sidecar?: Source;
}

/** File names, the same as those of the command-line program. */
const TOKENIZERS = ["tokenizer.json", "tokenizer.model"];
const CONFIG = "tokenizer_config.json";
const TEMPLATE = "chat_template.jinja";
const SIDECAR = "pteron.json";

/** The tokenizer and the files beside it. */
export interface LlmSide {
  /** Null if there is none. */
  tokenizer: Uint8Array | null;
  files: LlmFiles;
  /** The server's reason for denying a tokenizer that may exist. */
  refusal: string | null;
}

export const NO_SIDE: LlmSide = { tokenizer: null, files: {}, refusal: null };

/** The reason why there is no tokenizer, for the error of a session. */
export function noTokenizer(model: Source, refusal: string | null): string {
  const where = urlOf(model);
  if (!where) return "a session needs a tokenizer: give the option tokenizer (a file or an address)";
  const said = refusal === null ? "" : ` (${refusal})`;
  const missing = `beside ${where} there is neither ${TOKENIZERS.join(" nor ")}${said}`;
  return `a session needs a tokenizer: ${missing}; give the option tokenizer`;
}

/** Reads the files that a language model needs besides the program. */
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
