"""`dflash train` in a folder where somebody has trained before."""

from __future__ import annotations

import pytest

from tests.unit.train import small

TINY = (
    "--num-prompts", "4", "--held-out", "1", "--max-tokens", "8", "--max-length", "480",
    "--layers", "1", "--block-size", "4", "--batch-size", "2", "--anchors", "4", "--steps", "2",
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Where `org/tiny` is a target's folder."""
    home = tmp_path_factory.mktemp("home")
    small.saved_target(home / "org" / "tiny")
    return home


def test_a_target_s_folder_is_trained_for_again_once_it_has_an_entry(bare, home):
    bare.env["OMP_NUM_THREADS"] = "1"
    for output in ("first", "second"):
        ended = bare.run("train", "org/tiny", *TINY, "--output", output, cwd=home)
        assert ended.code == 0, ended.err
        assert "no registry entry" not in ended.err
        assert f"next: dflash plan {output}/tiny-DFlash" in ended.err


def test_a_seed_that_no_generator_takes_is_a_slip(bare, home):
    ended = bare.run("train", "org/tiny", "--seed", str(2**63), "--output", "seed", cwd=home)
    assert ended.code == 2
    assert "--seed" in ended.err
    assert not (home / "seed").exists()
