"""What is built and published: bounds of dependencies, pinned actions, the check of wheels."""

import re
import tomllib
import zipfile
from pathlib import Path

import pytest
from check_wheels import faults
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def name_of(requirement: str) -> str:
    return Requirement(requirement).name.replace("_", "-").lower()


def test_what_the_build_needs_is_bounded_on_both_sides():
    for text in PROJECT["build-system"]["requires"]:
        operators = {bound.operator for bound in Requirement(text).specifier}
        assert operators == {">=", "<"}, text


def test_lowest_versions_are_those_that_the_package_allows():
    lines = (Path(__file__).parent / "lowest.txt").read_text("utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    required = PROJECT["project"]["dependencies"]
    assert set(pins) == {name_of(text) for text in required}
    for text in required:
        specifier = Requirement(text).specifier
        pin = pins[name_of(text)]
        lowest = next(bound.version for bound in specifier if bound.operator == ">=")
        assert specifier.contains(pin)
        # 1.25 has no release of its own and means 1.25.2.
        assert pin.split(".")[:2] == (lowest + ".0").split(".")[:2], text


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_pinned_by_commit_with_their_version(workflow):
    for line in re.findall(r"uses: (.*)", workflow.read_text("utf-8")):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_one_action_has_one_commit():
    text = "".join(path.read_text("utf-8") for path in WORKFLOWS)
    pins = set(re.findall(r"uses: ([\w/-]+)@([0-9a-f]{40})", text))
    assert len({action for action, _ in pins}) == len(pins)


def make_wheel(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


def test_a_wheel_that_is_in_order_has_no_faults(tmp_path):
    wheel = make_wheel(
        tmp_path / "robirank-1.0-cp311-abi3-manylinux_2_28_x86_64.whl",
        *("robirank/_core.abi3.so", "robirank/_core.pyi", "robirank/py.typed"),
        *("robirank/__init__.pyi", "robirank.libs/libgomp.so", "robirank-1.0.dist-info/WHEEL"),
    )
    assert faults(wheel) == []


def test_faults_of_a_wheel_are_named(tmp_path):
    wheel = make_wheel(tmp_path / "robirank-1.0-cp312-cp312-linux_x86_64.whl", "tests/x.py")
    found = " ".join(faults(wheel))
    for part in ("cp311-abi3", "not repaired", "no native module", "py.typed is missing", "tests"):
        assert part in found
