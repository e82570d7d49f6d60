import assert from "node:assert/strict";
import { test } from "node:test";

import { load } from "./bundle.mjs";

const { canContinue, newTurn, promptFor, restore, save, tokensPerSecond } = await load("conversation");

test("the first token is not part of the rate, and one token has none", () => {
  assert.equal(tokensPerSecond(11, 2), 5);
  for (const [tokens, seconds] of [[1, 2], [0, 0], [5, 0]]) assert.equal(tokensPerSecond(tokens, seconds), null);
});

class FakeStore {
  items = new Map();
  getItem(key) {
    return this.items.get(key) ?? null;
  }
  setItem(key, value) {
    this.items.set(key, value);
  }
  removeItem(key) {
    this.items.delete(key);
  }
}

const answered = (style, prompt, text, state = "stop-token") => ({ style, prompt, answer: { text, tokens: [1, 2], state } });

test("a conversation comes back as it was", () => {
  const store = new FakeStore();
  const turns = [answered("chat", "a", "b"), answered("text", "c", "d", "stopped")];
  save(store, turns);
  assert.deepEqual(restore(store), turns);
});

test("an unfinished turn is restored as interrupted, with its text and tokens", () => {
  const store = new FakeStore();
  save(store, [answered("chat", "a", "half an ans", "writing")]);
  const [turn] = restore(store);
  assert.equal(turn.answer.state, "interrupted");
  assert.equal(turn.answer.text, "half an ans");
  assert.deepEqual(turn.answer.tokens, [1, 2]);
  assert.ok(canContinue(turn.answer));
});

test("an empty conversation leaves nothing behind", () => {
  const store = new FakeStore();
  save(store, [answered("chat", "a", "b")]);
  save(store, []);
  assert.equal(store.items.size, 0);
  assert.deepEqual(restore(store), []);
});

test("damaged or foreign storage is no conversation", () => {
  for (const value of ["{", "null", "{}", "[1]", '[{"style":"chat","prompt":"a"}]', '[{"style":"other","prompt":"a","answer":{"text":"","tokens":[],"state":"x"}}]']) {
    const store = { getItem: () => value };
    assert.deepEqual(restore(store), [], value);
  }
});

test("storage that is full or forbidden does not end the conversation", () => {
  const forbidden = () => {
    throw new DOMException("full", "QuotaExceededError");
  };
  save({ setItem: forbidden, removeItem: forbidden }, [answered("chat", "a", "b")]);
  assert.deepEqual(restore({ getItem: forbidden }), []);
});

test("a chat sends everything again, and goes on where the last answer ended", () => {
  const turns = [answered("chat", "q1", "a1"), answered("chat", "q2", "", "failed"), answered("chat", "q3", "half", "interrupted")];
  assert.deepEqual(promptFor(turns, "be brief"), {
    style: "chat",
    messages: [
      { role: "system", content: "be brief" },
      { role: "user", content: "q1" },
      { role: "assistant", content: "a1" },
      { role: "user", content: "q3" },
    ],
    partial: "half",
  });
  assert.equal(promptFor([newTurn("chat", "q")], "  ").messages.length, 1);
});

test("a text is one text: prompt and continuation, and no earlier ones", () => {
  const turns = [answered("text", "other", " text"), answered("text", "A thread", " is", "stopped")];
  assert.deepEqual(promptFor(turns, "be brief"), { style: "text", text: "A thread is" });
});

test("finished answers are finished", () => {
  assert.ok(!canContinue({ state: "stop-token", text: "a", tokens: [] }));
  assert.ok(!canContinue({ state: "stopped", text: "", tokens: [] }));
  assert.ok(canContinue({ state: "max-tokens", text: "a", tokens: [] }));
});
