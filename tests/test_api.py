"""The flat public API: its one table, what importing it costs, and the version."""

import inspect
import subprocess
import sys
from importlib.metadata import version

import pytest

import robirank
from robirank.registry import estimators


@pytest.mark.parametrize("name", robirank.__all__)
def test_every_public_name_can_be_imported(name):
    assert getattr(robirank, name) is not None
    assert name in dir(robirank)


def test_every_estimator_of_the_package_is_public():
    own = {n: cls for n, cls in estimators().items() if cls.__module__.startswith("robirank.")}
    assert len(own) > 10
    for name, cls in own.items():
        assert getattr(robirank, name) is cls


def test_importing_the_package_imports_nothing_heavy():
    code = "import sys, robirank; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"numpy", "scipy", "sklearn", "polars", "rich"} & set(ran.stdout.split())


def test_the_version_stands_in_one_place():
    assert robirank.__version__ == version("robirank")


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="NoSuchRanker"):
        _ = robirank.NoSuchRanker


@pytest.mark.parametrize("module", [robirank, robirank.losses, robirank.metrics])
def test_every_public_function_has_an_example(module):
    functions = [f for name in dir(module) if inspect.isfunction(f := getattr(module, name, None))]
    public = [f for f in functions if not f.__module__.startswith("robirank._")]
    public = [f for f in public if f.__module__.startswith("robirank") and f.__name__[0] != "_"]
    assert len(public) > 5
    assert [f.__qualname__ for f in public if ">>>" not in (f.__doc__ or "")] == []
