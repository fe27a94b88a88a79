from __future__ import annotations

import re
from pathlib import Path

import pytest

from dflash_deploy.engine_schema import Failure, PhaseSign
from dflash_deploy.launch.signs import Signs, error_in, last_error, signs
from dflash_deploy.reach import is_range
from dflash_deploy.registry import load

ENGINES = load(user=False).engines
RECORDED = Path(__file__).resolve().parents[2] / "fixtures" / "logs"
DATA = [
    pytest.param(name, sign, id=f"{name}-{getattr(sign, 'id', None) or sign.phase}")
    for name, engine in ENGINES.items()
    for sign in (*engine.phases, *engine.failures)
]


def of(engine: str, version: str | None = None) -> Signs:
    return signs(ENGINES[engine], version or ENGINES[engine].releases[-1].version)


@pytest.mark.parametrize(("engine", "sign"), DATA)
def test_every_sign_finds_its_own_example_before_any_other_does(
    engine: str, sign: PhaseSign | Failure
) -> None:
    known = ENGINES[engine]
    rows: list[PhaseSign] | list[Failure] = (
        known.phases if isinstance(sign, PhaseSign) else known.failures
    )

    assert next(row for row in rows if re.search(row.says, sign.example)) is sign
    assert sign.versions is None or is_range(sign.versions)


@pytest.mark.parametrize("version", ["", "latest"])
def test_of_a_release_that_is_none_no_line_says_anything(version: str) -> None:
    assert signs(ENGINES["vllm"], version) == Signs()


def phases_of(engine: str, version: str, file: str) -> list[str]:
    known, seen = of(engine, version), []
    for line in (RECORDED / file).read_text().splitlines():
        phase = known.phase_of(line)
        if phase and seen[-1:] != [phase]:
            seen.append(phase)
    return seen


def test_a_real_start_of_vllm() -> None:
    # it compiles the target, then the draft, and warms up on both sides of the graphs
    assert phases_of("vllm", "0.26.0", "vllm-0.26.0.log") == [
        "loading weights", "compiling", "warming up", "compiling", "warming up",
        "reserving the KV cache", "warming up", "capturing CUDA graphs", "warming up",
        "starting the server",
    ]  # fmt: skip


def test_a_real_start_of_sglang() -> None:
    assert phases_of("sglang", "0.5.17", "sglang-0.5.17.log") == [
        "loading weights", "loading the draft", "reserving the KV cache", "capturing CUDA graphs",
        "starting the server",
    ]  # fmt: skip


def test_a_line_of_the_server_at_work_says_nothing() -> None:
    assert of("vllm").phase_of("INFO: 127.0.0.1 - GET /health 200 OK") is None


def test_the_last_phase_of_some_lines() -> None:
    lines = ["Loading model from scratch...", "Dynamo bytecode transform time: 1 s", "else"]

    assert of("vllm").last_phase(lines) == "compiling"
    assert of("vllm").last_phase(["else"]) is None


def test_a_cause_stands_before_what_follows_from_it() -> None:
    small = "NCCL WARN Error while creating shared memory segment: No space left on device"
    after = "RuntimeError: NCCL error: unhandled system error"

    for engine in ("vllm", "sglang"):
        told = of(engine).cause([small, after])
        assert told is not None
        assert told[1].id == "shared-memory"


@pytest.mark.parametrize("file", sorted(RECORDED.iterdir()), ids=lambda file: file.name)
def test_a_start_that_went_well_gives_no_failure_away(file: Path) -> None:
    engine, version = file.stem.split("-", 1)

    assert of(engine, version).cause(file.read_text().splitlines()) is None


def test_a_kernel_that_is_missing_is_told_and_not_what_was_said_at_the_start() -> None:
    free = (
        "(EngineCore pid=9) INFO 11-30 04:18:55 [gpu_worker.py:857] Free memory on device"
        " (139.29/139.8 GiB) on startup. Desired GPU memory utilization is (0.92, 128.62 GiB)."
    )
    dead = "(EngineCore pid=9) NotImplementedError: SM90 GDN prefill DSL kernel is unavailable"
    told = of("vllm", "0.26.0").cause([free, dead, "(APIServer pid=5) INFO:     Shutting down"])

    assert told is not None
    assert told[0] == dead


def test_a_failure_that_a_release_no_longer_has_is_not_its_cause() -> None:
    line = "ValueError: not compatible with radix cache when using no_buffer"

    assert of("sglang", "0.5.11").cause([line]) is not None
    assert of("sglang", "0.5.14").cause([line]) is None


def test_the_particular_failure_wins_over_the_general_one() -> None:
    lines = [
        "Exception: Capture cuda graph failed: CUDA out of memory.",
        "torch.OutOfMemoryError: CUDA out of memory.",
    ]
    found = of("sglang").cause(lines)

    assert found is not None
    assert found[0] == lines[0]
    assert found[1].id == "graph-capture"


def test_the_last_error_is_the_one_that_names_its_cause() -> None:
    lines = [
        "(EngineCore pid=9) KeyError: 'layers'",
        '  File "x.py", line 3, in load',
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]

    assert last_error(lines) == lines[0]
    assert last_error(lines[1:]) == lines[2]
    assert last_error(["INFO: 0 errors"]) is None


def test_the_root_of_a_dead_core_is_found_below_what_points_at_it() -> None:
    root = "(Worker pid=9) ERROR 11-29 22:01:43 [x.py:1063] AssertionError: no such mode on a CPU"
    pointing = (
        "[core.py:1512] RuntimeError: Worker failed with error 'no such mode on a CPU', please "
        "check the stack trace above for the root cause\n"
        "[async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an "
        "issue. See stack trace (above) for the root cause.\n"
        "INFO:     Shutting down"
    )
    found = last_error((root, *pointing.splitlines()))
    assert found == root
    assert error_in(root) == "AssertionError: no such mode on a CPU"


def test_a_worker_that_failed_to_start_is_told_by_its_own_error() -> None:
    lines = (
        "(Worker pid=9) ERROR 11-29 22:37:46 [x.py:912] KeyError: 'layers'",
        (
            "(EngineCore pid=8) ERROR 11-29 22:37:46 [core.py:1404] Exception: WorkerProc initialization"
            " failed due to an exception in a background process. See stack trace for root cause."
        ),
    )
    assert last_error(lines) == lines[0]


@pytest.mark.parametrize(
    "line",
    [
        "Worker proc VllmWorker-0 died unexpectedly (exit code: None), shutting down executor.",
        "[shutdown] MPClient: engine core exited unexpectedly; starting cleanup",
        (
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core "
            "proc(s): {'EngineCore': -9}"
        ),
        (
            "ERROR [core_client.py:564] Engine core proc EngineCore_DP0 died unexpectedly, shutting "
            "down client."
        ),
    ],
)
def test_a_process_that_was_killed_is_the_cause_where_nothing_else_is_told(line: str) -> None:
    found = of("vllm").cause([line])
    assert found is not None
    assert found[1].id == "process-killed"
    told = of("vllm").cause(["torch.OutOfMemoryError: CUDA out of memory.", line])
    assert told is not None
    assert told[1].id == "out-of-memory"


def test_a_core_that_failed_by_itself_was_not_killed() -> None:
    assert of("vllm").cause(["Failed core proc(s): {'EngineCore': 1}"]) is None


SCHEDULER = (
    "RuntimeError: Rank 0 scheduler died during initialization (exit code: {}). If exit code is -9"
    " (SIGKILL), a common cause is the OS OOM killer. Run `dmesg -T | grep -i oom` to check."
)


def test_a_scheduler_of_sglang_that_died_points_at_its_own_error() -> None:
    root = "ValueError: rope scaling of that kind is not known"
    assert last_error([root, SCHEDULER.format(1)]) == root
    assert of("sglang").cause([SCHEDULER.format(1)]) is None
    killed = of("sglang").cause([SCHEDULER.format(-9)])
    assert killed is not None
    assert killed[1].id == "process-killed"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_package_that_something_did_without_is_not_why_it_died(engine: str) -> None:
    lacking = "ModuleNotFoundError: No module named 'xformers'"
    died = "ValueError: rope scaling of that kind is not known"
    between = "During handling of the above exception, another exception occurred:"
    assert of(engine).cause([lacking, between, died]) is None
    pointing = ("RuntimeError: Engine core initialization failed. See root cause above.",
                SCHEDULER.format(1))  # fmt: skip
    told = of(engine).cause([died, "INFO again", lacking, *pointing])
    assert told is not None
    assert told[1].id == "missing-package"


def test_an_error_of_a_configuration_is_told_without_what_was_given() -> None:
    lines = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        (
            "  Value error, Cannot find the config file for awq [type=value_error, "
            "input_value=ArgsKwargs((), {'model_co... 'shutdown_timeout': 0}), input_type=ArgsKwargs]"
        ),
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error",
    )
    found = last_error(lines)
    assert found == lines[1]
    assert error_in(found) == "Value error, Cannot find the config file for awq"
