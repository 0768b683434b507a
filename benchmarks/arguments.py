"""The options that programs which measure gateways have in common."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path


def read_arguments(description: str, programs: Iterable[str], results: Path) -> argparse.Namespace:
    known = list(programs)
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="one short round: a look, not a figure to quote")
    parser.add_argument("--only", metavar="LABEL,...", help=f"of {', '.join(known)}")
    parser.add_argument("--delay-ms", type=float, default=0.0, metavar="MS", help="how long a call takes downstream")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="where a picture of the figures is written (SVG)")
    parser.add_argument("--json", type=Path, default=results, metavar="FILE", help="where figures are written")
    arguments = parser.parse_args()
    arguments.labels = arguments.only.split(",") if arguments.only else known
    if unknown := set(arguments.labels) - set(known):
        parser.error(f"--only: no such program: {', '.join(sorted(unknown))}")
    return arguments
