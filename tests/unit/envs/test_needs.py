from __future__ import annotations

import pytest
from packaging.version import Version

from dflash_deploy.envs import needs
from dflash_deploy.errors import EngineError, Unsupported, UsageError
from dflash_deploy.hardware import Hardware


@pytest.mark.parametrize(
    ("text", "pin"),
    [
        ("vllm", "vllm==0.33.0"),
        ("vllm==0.26.0", "vllm==0.26.0"),
        ("vLLM == 0.26", "vllm==0.26.0"),
        ("sglang==0.5.19", "sglang==0.5.19"),
    ],
)
def test_a_release_is_said_as_pip_says_it(engines, text: str, pin: str) -> None:
    assert needs.wanted(text, engines).pin == pin


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("vllm==0.19.0", EngineError, "0.20.0 is the first to"),
        ("vllm==0.99.0", EngineError, "not a release that the registry knows"),
        ("sglang==0.5.12", EngineError, "not a release that the registry knows"),
        ("vllm==new", UsageError, "not a release of vllm"),
        ("vllm>=0.30", UsageError, "names no release"),
        ("--vllm", UsageError, "names no release"),
        ("torch", UsageError, "no engine that can be installed"),
        ("transformers", UsageError, "needs no environment"),
    ],
)
def test_anything_else_is_refused_with_the_next_command(engines, text, error, says) -> None:
    with pytest.raises(error, match=says) as caught:
        needs.wanted(text, engines)
    assert caught.value.hint
    if error is EngineError:
        newest = engines[text.partition("==")[0]].releases[-1].version
        assert caught.value.hint.endswith(f"=={newest}")


@pytest.mark.parametrize(
    ("text", "held"),
    [("vllm==0.25.1", []), ("vllm==0.26.0", ["transformers<5.15"]),
     ("vllm==0.27.1", ["transformers<5.15"]), ("vllm==0.28.0", [])],
)  # fmt: skip
def test_constraints_come_from_the_registry(engines, text: str, held: list[str]) -> None:
    assert needs.wanted(text, engines).constraints == held


def test_a_releases_own_python_narrows_the_engines(engines) -> None:
    assert needs.wanted("vllm==0.31.0", engines).python == ">=3.10,<3.15"
    assert needs.wanted("vllm==0.33.0", engines).python == ">=3.10,<3.15,>=3.11"


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_every_release_says_which_driver_it_needs(engines, name: str) -> None:
    for release in engines[name].releases:
        need = needs.wanted(f"{name}=={release.version}", engines).cuda
        assert need
        assert Version(need.driver).major >= 580


@pytest.mark.parametrize(
    ("driver", "cuda"),
    [
        ("580.65.06", "13.0"),
        ("590.10", "13.1"),
        ("580.65.06", None),  # a container without libcuda
        ("570.86.15", "13.0"),  # with the compatibility package
    ],
)
def test_a_driver_of_the_same_cuda_generation_is_enough(this, driver, cuda) -> None:
    assert needs.check_driver(this, Hardware(driver=driver, cuda=cuda)) is None


@pytest.mark.parametrize("cuda", ["12.8", None])
def test_an_older_driver_is_refused_with_what_it_is_and_what_is_needed(this, cuda) -> None:
    with pytest.raises(Unsupported, match=r"580\.65\.06 or newer.*570\.86\.15") as caught:
        needs.check_driver(this, Hardware(driver="570.86.15", cuda=cuda))
    assert "--no-driver-check" in str(caught.value.hint)


def test_no_driver_at_all_is_a_line_and_no_error(this) -> None:
    line = needs.check_driver(this, Hardware())
    assert line is not None
    assert "580.65.06" in line
