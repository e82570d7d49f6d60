"""Runs Python blocks: one per line of standard input, as a JSON string. Names last from block to block."""

import asyncio
import contextlib
import inspect
import io
import json
import sys
import traceback
from ast import PyCF_ALLOW_TOP_LEVEL_AWAIT

names = {"__name__": "__main__"}
real = sys.stdout
for line in sys.stdin:
    printed, status = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        try:
            code = compile(json.loads(line), "<block>", "exec", flags=PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, names)
            if inspect.isawaitable(result):
                asyncio.run(result)
        except BaseException:
            traceback.print_exc()
            status = 1
    real.write(f"{printed.getvalue()}\n\x1eend {status}\n")
    real.flush()
