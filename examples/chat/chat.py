"""python examples/chat/chat.py [folder of a model]"""

import sys

from pteron import LLM

session, messages = LLM(*sys.argv[1:2]).session(), []
for line in sys.stdin:
    messages.append({"role": "user", "content": line.strip()})
    reply = session.stream_chat(messages, max_tokens=60, stop="\n\n")
    text = ""
    for token in reply:
        print(token.text, end="", flush=True)
        text += token.text
    print()
    messages.append({"role": "assistant", "content": text})
