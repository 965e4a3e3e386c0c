"""Fuzz the formats that treeinner reads; a run continues where it was stopped.

Examples
--------
    python -m tests.fuzz                                      all formats, a full run of each
    python -m tests.fuzz --format lightgbm --minutes 5        five minutes of one format
    python -m tests.fuzz --format lightgbm --show 12345       try one mutant here, and write it to build/fuzz
    python -m tests.fuzz --report                             what was counted so far
"""

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

from tests.fuzz import driver
from tests.fuzz.formats import FORMATS, mutant


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="this format alone; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--mutants", type=int, help="stop at this number of mutants of each format")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after these minutes in all, shared by the formats"
    )
    parser.add_argument("--jobs", type=int, default=1, help="formats at a time")
    parser.add_argument("--fresh", action="store_true", help="begin again at mutant 0")
    parser.add_argument("--folder", type=Path, default=driver.FOLDER, help="where counts are kept")
    parser.add_argument("--show", type=int, metavar="NUMBER", help="try one mutant in this process and write it out")
    parser.add_argument("--retry", action="store_true", help="run what failed so far once more, and nothing else")
    parser.add_argument("--report", action="store_true", help="print what was counted, and run nothing")
    return parser.parse_args()


def show(format: str, number: int, seed: int) -> None:
    from tests.fuzz.judge import Judge

    source, damages, data = mutant(format, number, seed)
    path = driver.FOLDER / f"{format}-{seed}-{number}{Path(source.name).suffix}"
    path.write_bytes(data)
    print(f"{path}: {len(data)} bytes, from {source.name} by {damages}")
    print(Judge(format, FORMATS[format].library, path)(source, data))


def one(args: argparse.Namespace, format: str, minutes: float) -> int:
    """Run one format in this process; how many failures there are."""
    state = driver.State.load(format, args.seed, args.folder, fresh=args.fresh)
    if args.retry:
        driver.retry(state, args.folder)
    elif not args.report:
        driver.run(state, args.mutants or FORMATS[format].n_mutants, 60 * minutes, args.folder)
    print(driver.summary(state), flush=True)
    return state.n_failures


def elsewhere(args: argparse.Namespace, format: str, minutes: float) -> int:
    """The same in a process of its own."""
    command = [
        sys.executable,
        "-m",
        "tests.fuzz",
        "--format",
        format,
        "--seed",
        str(args.seed),
        "--minutes",
        str(minutes),
    ]
    command += ["--folder", str(args.folder)] + ["--fresh"] * args.fresh
    return subprocess.run(command + (["--mutants", str(args.mutants)] if args.mutants else []), check=False).returncode


def main() -> int:
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    formats = args.format or list(FORMATS)
    if args.show is not None:
        show(formats[0], args.show, args.seed)
        return 0
    minutes = args.minutes * min(args.jobs, len(formats)) / len(formats)
    if args.jobs == 1:
        return min(1, sum(one(args, format, minutes) for format in formats))
    driver.seeds("accumulator")  # which needs most others: two processes must not write them at once
    with ThreadPoolExecutor(args.jobs) as pool:
        return max(pool.map(lambda format: elsewhere(args, format, minutes), formats))


if __name__ == "__main__":
    sys.exit(main())
