"""Modules in the places that ExecuTorch has them in."""
