from __future__ import annotations

import subprocess
from dataclasses import dataclass, field

import pytest

from dflash_deploy.launch.endings import LINGER, MOMENT, died, failing, gone, in_short, in_words
from dflash_deploy.launch.signs import Signs, signs
from dflash_deploy.registry import load
from dflash_deploy.schema import EngineName


def known(engine: EngineName) -> Signs:
    found = load(user=False).engines[engine]
    return signs(found, found.releases[-1].version)


def test_the_cause_is_shown_though_many_lines_follow_it() -> None:
    cause = "ValueError: DFlash drafter expects 20480 concatenated aux hidden features"
    after = ("  File", "RuntimeError: Engine core initialization failed. See root cause above.")

    error = died("vllm", 1, (cause, *(f"line {n}" for n in range(30)), *after), "", known("vllm"))

    assert error.detail is not None
    assert error.detail.splitlines()[0] == cause
    assert error.hint is not None
    assert "another target" in error.hint


LEAVINGS = """\
nanobind: leaked 4 instances!
 - leaked instance 0x7f718d150ba8 of type "triton._C.libtriton.ir.attribute"
 - ... skipped remainder
nanobind: this is likely caused by a reference counting issue in the binding code.
See https://nanobind.readthedocs.io/en/latest/refleaks.html/usr/lib/python3.12/multiprocessing/\
resource_tracker.py:254: UserWarning: resource_tracker: There appear to be 1 leaked semaphore objects
  warnings.warn('resource_tracker: There appear to be %d '
/usr/lib/python3.12/multiprocessing/resource_tracker.py:254: UserWarning: resource_tracker: There \
appear to be 1 leaked shared_memory objects to clean up at shutdown
  warnings.warn('resource_tracker: There appear to be %d '
"""


def test_what_a_process_leaves_behind_is_no_evidence() -> None:
    killed = (
        "(EngineCore pid=8) ERROR 11-29 22:35:02 [multiproc_executor.py:315] Worker proc "
        "VllmWorker-0 died unexpectedly (exit code: None), shutting down executor."
    )
    lines = (killed, "RuntimeError: cancelled", *LEAVINGS.splitlines() * 3)

    error = died("vllm", 0, lines, "while it served", known("vllm"))

    assert error.detail == "\n".join(lines[:2])
    assert in_short(error) == "vLLM ended with exit code 0 while it served"
    assert error.hint is not None
    assert "dmesg" in error.hint


def test_an_unknown_error_is_shown_as_well() -> None:
    lines = ("KeyError: 'layers'", *(f"line {n}" for n in range(30)))

    error = died("vllm", 1, lines, "", known("vllm"))

    assert error.hint is None
    assert error.detail is not None
    assert error.detail.startswith("KeyError: 'layers'\n...")


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (1, "ended with exit code 1"),
        (255, "ended with exit code 255"),
        (139, "was ended by a signal (SIGSEGV)"),
        (-15, "was ended by a signal (SIGTERM)"),
        (137, "was killed (SIGKILL), probably because the machine ran out of memory"),
    ],
)
def test_exit_codes_in_words(code: int, words: str) -> None:
    assert in_words(code) == words


def test_an_error_carries_the_last_lines_and_the_likely_cause() -> None:
    lines = ("x", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")

    error = died("vllm", 1, lines, "before it was ready", known("vllm"))

    assert error.exit_code == 7
    assert error.message == "vLLM ended with exit code 1 before it was ready"
    assert error.detail == "\n".join(lines)
    assert error.hint is not None
    assert "not enough GPU memory" in error.hint


def test_an_unknown_cause_gets_no_hint() -> None:
    assert died("sglang", 3, ("hm",), "while it served").hint is None


def test_damaged_weights_are_to_be_fetched_again():
    error = died("transformers", 6, ("error: the target /w could not be loaded", "bad header"), "",
                 known("transformers"))  # fmt: skip
    assert "fetches the weights again" in error.hint
    assert error.message == "the embedded engine ended with exit code 6"


@dataclass
class Dying:
    """A server that ends after so many seconds."""

    takes: float
    tail: tuple[str, ...]
    engine: EngineName = "vllm"
    signs: Signs = field(default_factory=Signs)
    stop_asked: bool = False
    phase: str | None = None

    def poll(self) -> int | None:
        return None

    def wait(self, timeout: float | None = None) -> int:
        if timeout is None or self.takes <= timeout:
            return 1
        raise subprocess.TimeoutExpired("vllm", timeout)

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


TOLD = ("KeyError: 'layers'", "INFO: shutting down")


@pytest.mark.parametrize(
    ("takes", "tail", "found"),
    [
        (MOMENT, (), "vLLM ended with exit code 1 while it served"),
        (MOMENT + 1, (), None),
        (LINGER, TOLD, "vLLM ended with exit code 1 while it served: KeyError: 'layers'"),
        (LINGER + 1, TOLD, None),
    ],
)
def test_one_that_told_an_error_is_waited_for(
    takes: float, tail: tuple[str, ...], found: str | None
) -> None:
    error = gone(Dying(takes, tail), "while it served")
    assert (error and in_short(error)) == found


def test_only_an_error_is_evidence_of_a_server_that_runs() -> None:
    assert failing(("INFO: ready",)) is None
    assert failing(TOLD) == "\n".join(TOLD)
