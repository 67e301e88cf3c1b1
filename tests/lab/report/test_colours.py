"""The colours of the report: apart for everyone, and strong enough to be seen."""

import itertools
import re
from importlib import resources

import numpy as np
import pytest


def _colours():
    css = (resources.files("robirank_lab.report") / "page" / "page.css").read_text()
    pairs = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\)", css)
    return {name: (light, dark) for name, light, dark in pairs}


def _linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def _contrast(a, b):
    low, high = sorted(float(_linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b))
    return (high + 0.05) / (low + 0.05)


# Machado, Oliveira and Fernandes (2009), full severity.
_VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
# Ottosson (2020): Oklab, a space in which equal distances look alike.
_TO_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_TO_LAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def _oklab(linear):
    return _TO_LAB @ np.cbrt(_TO_CONES @ linear)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", _VISION)
def test_methods_keep_apart_for_every_colour_vision(theme, vision):
    colours = _colours()
    names = ["accent", *(f"m{i}" for i in range(7))]
    seen = {n: _oklab(np.clip(_VISION[vision] @ _linear(colours[n][theme]), 0, 1)) for n in names}
    nearest = min(np.linalg.norm(seen[a] - seen[b]) for a, b in itertools.combinations(names, 2))
    assert nearest > 0.1


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_contrasts_meet_the_guidelines(theme):
    """WCAG 2: 4.5 for text, 3 for lines."""
    colours = {name: pair[theme] for name, pair in _colours().items()}
    for text in ("ink", "soft", "accent"):
        assert _contrast(colours[text], colours["paper"]) >= 4.5, text
    for text, ground in (("ink", "tint"), ("soft", "raised"), ("soft", "tint")):
        assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    for line in ("accent", "focus", *(f"m{i}" for i in range(7))):
        assert _contrast(colours[line], colours["paper"]) >= 3.0, line
