"""ExecuTorch's API for language models: `runner`."""
