"""Exports the fixtures of Pteron's tests through ExecuTorch, with PyTorch's outputs."""
