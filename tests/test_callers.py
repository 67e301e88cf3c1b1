"""Warnings name the line of the user's program."""

import contextlib
import warnings

import pytest

from robirank._callers import warn


def as_module(name: str, source: str) -> dict:
    """The names of a module that a program would import."""
    names = {"__name__": name, "warn": warn, "contextlib": contextlib}
    exec(compile(source, f"{name}.py", "exec"), names)
    return names


@pytest.mark.parametrize("name", ["robirank.latent.base", "robirank", "sklearn.base"])
def test_frames_of_the_package_are_passed_over(name):
    inner = as_module(name, "def inner():\n    warn('text')")["inner"]
    with pytest.warns(UserWarning, match="text") as caught:
        inner()
    assert caught[0].filename == __file__


def test_a_context_manager_of_the_package_is_passed_over():
    source = "@contextlib.contextmanager\ndef inner():\n    warn('text')\n    yield"
    inner = as_module("robirank.x", source)["inner"]
    with pytest.warns(UserWarning, match="text") as caught, inner():
        pass
    assert caught[0].filename == __file__


def test_a_package_with_a_longer_name_is_not_inside():
    inner = as_module("robirank_lab", "def inner():\n    warn('text', RuntimeWarning)")["inner"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        inner()
    assert (caught[0].filename, caught[0].category) == ("robirank_lab.py", RuntimeWarning)
