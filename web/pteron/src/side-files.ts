import type { LlmFiles } from "./engine.js";
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
  tokenizer: Uint8Array;
  files: LlmFiles;
}

/** Why there is no tokenizer, for the error of a session. */
export function noTokenizer(model: Source): string {
  const where = urlOf(model);
  if (!where) return "a session needs a tokenizer: give the option tokenizer (a file or an address)";
  return `a session needs a tokenizer: beside ${where} there is neither ${TOKENIZERS.join(" nor ")}; give the option tokenizer`;
}

/** Reads what a language model needs besides the program; null where there is no tokenizer. */
export async function readSideFiles(model: Source, given: SideFiles, options: FetchOptions): Promise<LlmSide | null> {
  if (given.tokenizer === false) return null;
  const base = urlOf(model);
  const read = (source: Source) => readFile(source, model, options, false);
  const find = (name: string) => (base === null ? null : readFile(new URL(name, base), model, options, true));
  const text = async (source: Source | undefined, name: string) => {
    const bytes = await (source === undefined ? find(name) : read(source));
    return bytes && new TextDecoder().decode(bytes);
  };
  const tokenizer = async () => {
    if (given.tokenizer) return read(given.tokenizer);
    for (const name of TOKENIZERS) {
      const found = await find(name);
      if (found) return found;
    }
    return null;
  };
  const inline = typeof given.template === "string" && /\{[{%]/.test(given.template) ? given.template : null;
  const [bytes, tokenizerConfig, template, sidecar] = await Promise.all([
    tokenizer(),
    text(given.tokenizerConfig, CONFIG),
    inline ?? text(given.template, TEMPLATE),
    text(given.sidecar, SIDECAR),
  ]);
  if (!bytes) return null;
  const files = { ...(tokenizerConfig && { tokenizerConfig }), ...(template && { template }), ...(sidecar && { sidecar }) };
  return { tokenizer: bytes, files };
}
