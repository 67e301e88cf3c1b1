"""Where the examples in docstrings cannot run."""

from importlib.util import find_spec

collect_ignore_glob = (
    []
    if find_spec("torch")
    else [
        "src/robirank/torch/*",
        "src/robirank/latent/gpu/*",
        "src/robirank/latent/*/*_on_card.py",
    ]
)
