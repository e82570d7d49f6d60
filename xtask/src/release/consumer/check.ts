// What a user's TypeScript sees of the npm package.

import { type LoadOptions, Model, PteronError, Session, support } from "pteron";

export async function write(url: string, options: LoadOptions): Promise<string> {
  const here = await support();
  if (!here.supported) throw new Error(here.reason);
  const model: Model = await Model.load(url, options);
  const session: Session = model.session();
  let text = "";
  try {
    for await (const token of session.generate("A thread is", { maxTokens: 10 })) text += token.text;
  } catch (error) {
    if (error instanceof PteronError) return error.code;
    throw error;
  }
  // @ts-expect-error: an option that does not exist.
  session.generate("", { maxTokns: 1 });
  return text;
}
