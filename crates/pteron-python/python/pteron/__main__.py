"""The command `pteron`."""

import sys

from pteron import _native


def main() -> int:
    """Runs the command with the arguments of this process."""
    return _native.run_command(["pteron", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
