"""What a folder of built wheels must be: ``python tests/packaging/check_wheels.py FOLDER``."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

MOST_BYTES = 3_000_000


def faults(wheel: Path) -> list[str]:
    """What is wrong with one wheel of robirank, in sentences."""
    found = []
    if "-cp311-abi3-" not in wheel.name:
        found.append("its tag is not cp311-abi3: it would serve one Python alone")
    if "-linux_" in wheel.name:
        found.append("it was not repaired: the tag linux is refused by the package index")
    if (size := wheel.stat().st_size) > MOST_BYTES:
        found.append(f"it has {size:,} bytes, more than {MOST_BYTES:,}")
    names = zipfile.ZipFile(wheel).namelist()
    if not any(name.startswith("robirank/_core.") and "pyi" not in name for name in names):
        found.append("it has no native module")
    wanted = ("robirank/_core.pyi", "robirank/py.typed", "robirank/__init__.pyi")
    found += [f"{name} is missing" for name in wanted if name not in names]
    strangers = {name.split("/")[0].split("-")[0] for name in names} - {"robirank", "robirank.libs"}
    if strangers:
        found.append(f"it brings {', '.join(sorted(strangers))} beside the package")
    return found


def main() -> int:
    """Check every wheel of a folder; 1 if one of them is not as it must be."""
    wheels = sorted(Path(sys.argv[1]).glob("robirank-*.whl"))
    if not wheels:
        print(f"no wheel of robirank in {sys.argv[1]}")
        return 1
    wrong = False
    for wheel in wheels:
        found = faults(wheel)
        print(f"{wheel.name}: {wheel.stat().st_size:,} bytes; {' '.join(found) or 'in order'}")
        wrong = wrong or bool(found)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
