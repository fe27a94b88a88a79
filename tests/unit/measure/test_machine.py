from __future__ import annotations

from importlib import metadata

from dflash_deploy.measure.machine import engine_versions


def test_the_embedded_engine_is_told_by_the_libraries_that_it_computes_with() -> None:
    """Its own release is this project's, and no release of transformers."""
    known = {name: metadata.version(name) for name in ("torch", "transformers")}

    assert engine_versions("transformers", "0.1.0") == known


def test_any_other_engine_by_its_release() -> None:
    assert engine_versions("vllm", "0.26.0") == {"vllm": "0.26.0"}
    assert engine_versions("sglang", None) == {}
