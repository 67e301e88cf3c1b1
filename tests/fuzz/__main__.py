"""Fuzz for a while: ``PYTHONPATH=tests python -m fuzz --seconds 3600 --seed 7 letor models``.

Prints every finding with the command that repeats it. A crash ends the process; the file ``--last``
then holds the case.
"""

import argparse
import itertools
import sys
import tempfile
import time
import traceback
from pathlib import Path

from fuzz.targets import TARGETS, run_case


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(TARGETS)}")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="this case only")
    parser.add_argument("--last", type=Path, default=Path(tempfile.gettempdir(), "fuzz-last"))
    given = parser.parse_args()
    unknown = set(given.targets) - TARGETS.keys()
    if unknown:
        parser.error(f"unknown target {min(unknown)}; there are {', '.join(TARGETS)}")
    names = given.targets or [*TARGETS]
    cases = itertools.count() if given.case is None else [given.case]
    end, found, done = time.monotonic() + given.seconds, 0, 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for case, name in ((case, name) for case in cases for name in names):
            if time.monotonic() > end:
                break
            given.last.write_text(f"{name} --seed {given.seed} --case {case}\n")
            done += 1
            try:
                run_case(name, given.seed, case, Path(folder))
            except Exception:
                found += 1
                traceback.print_exc()
                print(f"repeat: python -m fuzz {given.last.read_text()}", flush=True)
    print(f"{done} cases, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
