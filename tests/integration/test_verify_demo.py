"""`dflash verify` for real: the demo pair on the embedded engine, token by token."""

from __future__ import annotations

import json
from pathlib import Path


def test_the_demo_pair_is_lossless(bare, port, demo_target: Path) -> None:
    process = bare.start(
        "verify", "smollm2-135m", "--engine", "transformers", "--weights", "q4_1", "--port", str(port),
        "--limit", "4", "--max-tokens", "12", "--json",
        env={"XDG_CACHE_HOME": str(demo_target.parents[2])},
    )  # fmt: skip
    out, err = process.communicate(timeout=280)
    assert process.returncode == 0, err
    found = json.loads(out)
    assert (found["compared"], found["passed"]) == (4, True)
    judgement = found["judgement"]
    assert judgement["exact"] + len(judgement["near_ties"]) == 4
    assert judgement["exact"] >= 3
    assert found["acceptance"]["drafts"] > 0
    assert found["acceptance"]["on_record"] > 1
    assert err.count(": starting the server") == 1
