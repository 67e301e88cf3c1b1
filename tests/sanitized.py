"""Run tests with a native module that was built elsewhere: ``sanitized.py FOLDER TEST…``."""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

# With a sanitizer, memory that is not there ends the program.
LEFT_OUT = "not memory_that_is_not_there"
NAME = "robirank._core"


def use_module(file: Path) -> None:
    """Let the package have this file as its native module."""
    spec = spec_from_file_location(NAME, file, loader=ExtensionFileLoader(NAME, str(file)))
    assert spec is not None
    module = sys.modules[NAME] = module_from_spec(spec)
    spec.loader.exec_module(module)
    import robirank

    robirank._core = module


if __name__ == "__main__":
    folder, *tests = sys.argv[1:]
    use_module(next(Path(folder).glob("_core*.so")))
    sys.exit(
        pytest.main(["-q", "--timeout=1800", "-p", "no:cacheprovider", "-k", LEFT_OUT, *tests])
    )
