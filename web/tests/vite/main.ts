import { Model, PteronError, type GenerateResult, type Progress } from 'pteron';

const text = document.querySelector<HTMLPreElement>('#text');
const bar = document.querySelector<HTMLProgressElement>('#progress');
if (!text || !bar) throw new Error('the page lacks its elements');

function show({ loadedBytes, totalBytes }: Progress): void {
  if (bar && totalBytes > 0) bar.value = loadedBytes / totalBytes;
}

try {
  const model = await Model.load('/demo/model.pte', { onProgress: show });
  const generation = model.session().generate('Ownership is', { temperature: 0, maxTokens: 8 });
  for await (const piece of generation) text.textContent += piece.text;
  const { tokens }: GenerateResult = await generation.result;
  text.dataset['tokens'] = tokens.join(' ');
  model.dispose();
} catch (error) {
  text.dataset['problem'] = error instanceof PteronError ? `${error.code}: ${error.message}` : String(error);
}
