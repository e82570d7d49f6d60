"""ExecuTorch's lower-level Python API: `portable_lib`."""
