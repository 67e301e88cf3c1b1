"""What the build of the native module says where it cannot begin."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")
def test_a_build_without_a_compiler_says_so(tmp_path):
    ran = subprocess.run(
        ["cmake", "-S", ROOT, "-B", tmp_path / "build"],
        env=os.environ | {"CXX": str(tmp_path / "none")},
        capture_output=True,
        text=True,
    )
    assert ran.returncode != 0
    said = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    assert said[0].startswith("CMake Error at CMakeLists.txt")
    assert said[1] == "robirank needs a C++17 compiler (g++ or clang++)"
