"""Some cases of each target, always the same; ``make fuzz`` runs others for any time."""

import pytest

from fuzz.targets import TARGETS, run_case

#: Together about 25 seconds on two idle cores.
CASES = {"letor": 2500, "interactions": 1200, "models": 1500, "shards": 500, "csr": 800}
CASES |= {"feature_files": 500, "feature_tables": 400, "feature_models": 1000}


@pytest.mark.parametrize("name", TARGETS)
def test_every_case_ends_well(name, tmp_path):
    for case in range(CASES[name]):
        try:
            run_case(name, 0, case, tmp_path)
        except Exception as error:
            pytest.fail(f"case {case} of {name} with seed 0 ended in {error!r}")
