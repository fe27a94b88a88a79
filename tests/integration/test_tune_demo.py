"""`dflash tune` for real: the demo pair on the embedded engine, plain and its block on one server."""

from __future__ import annotations

import json
from pathlib import Path


def test_the_demo_pair_is_tuned_on_a_cpu(bare, port, demo_target: Path, tmp_path: Path) -> None:
    # a second thread only waits for the first where other tests run beside this one
    env = {"XDG_CACHE_HOME": str(demo_target.parents[2]), "OMP_NUM_THREADS": "1"}
    process = bare.start(
        "tune", "smollm2-135m", "--engine", "transformers", "--weights", "q4_1", "--port", str(port),
        "--num-prompts", "2", "--max-tokens", "24", "--repeats", "1", "--block-sizes", "8", "--json",
        "--output", str(tmp_path / "tune.json"), env=env,
    )  # fmt: skip
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    document = json.loads(out)
    assert (document["engine"], document["starts"]) == ("transformers", 1)
    # whether it gains in two short answers on a busy machine is not for a test to say
    choice = document["choice"]
    assert choice is None or (choice["block_size"], choice["schedule"]) == (8, [])
    assert (document["file"] is None) == (choice is None)
    if choice:
        when = document["entry"]["recipes"][0]["when"]
        assert when["engine"] == "transformers"
        assert when["architecture"] is None
