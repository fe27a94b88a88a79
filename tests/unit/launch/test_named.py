from __future__ import annotations

import socket

import pytest

from dflash_deploy.errors import EngineError, PortTaken, UsageError
from dflash_deploy.launch import containers, state
from dflash_deploy.launch.containers import BoxedServer
from dflash_deploy.launch.detached import record_of
from dflash_deploy.launch.named import check_port_free, named
from tests.fakes.plans import plan


def record(name: str) -> None:
    state.write(record_of(plan("vllm", port=int(name.rpartition("-")[2])), name, log=None))


def box(name: str, model: str, port: int) -> BoxedServer:
    return BoxedServer(
        name=name, model=model, draft="", engine="vllm", version="0.33.0", port=port,
        base_url=f"http://127.0.0.1:{port}", health_path="/health", restarts=0, container=name,
        since="2026-11-28T10:00:00+00:00", ended=None, unhealthy=False,
    )  # fmt: skip


@pytest.fixture
def boxes(monkeypatch: pytest.MonkeyPatch) -> list[BoxedServer]:
    found: list[BoxedServer] = []
    monkeypatch.setattr(containers, "every", lambda: found)
    return found


def test_a_name_may_be_short_if_it_is_clear(boxes: list[BoxedServer]) -> None:
    for name in ("qwen3-8b-8000", "qwen3-8b-8001", "gpt-oss-20b-9000"):
        record(name)

    (found,) = {named(name, "logs") for name in ("gpt-oss-20b", "9000", "gpt-oss-20b-9000")}
    assert found is not None
    assert named("nope", "logs") is None
    for wanted in ("logs", "stop"):
        with pytest.raises(UsageError, match="may be qwen3-8b-8000, qwen3-8b-8001") as told:
            named("qwen3-8b", wanted)
        assert told.value.hint == f"dflash {wanted} qwen3-8b-8000"


@pytest.mark.parametrize(
    "name", ["dflash-qwen3-5-4b-8000", "qwen3-5-4b-8000", "8000", "qwen3.5-4b", "Qwen/Qwen3.5-4B"]
)
def test_a_container_is_found_by_its_name_its_port_and_its_model(
    boxes: list[BoxedServer], name: str
) -> None:
    boxes += [
        box("dflash-qwen3-5-4b-8000", "Qwen/Qwen3.5-4B", 8000),
        box("dflash-gpt-oss-20b-8001", "openai/gpt-oss-20b", 8001),
    ]

    assert named(name, "logs") is boxes[0]


def test_a_process_and_a_container_of_one_model_are_told_apart(boxes: list[BoxedServer]) -> None:
    record("qwen3-4b-8000")
    boxes.append(box("dflash-qwen3-4b-8001", "Qwen/Qwen3-4B", 8001))

    with pytest.raises(UsageError, match="may be qwen3-4b-8000, dflash-qwen3-4b-8001"):
        named("Qwen/Qwen3-4B", "logs")
    assert named("8001", "logs") is boxes[0]


def test_without_a_daemon_processes_are_still_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> list[BoxedServer]:
        raise EngineError("no Docker daemon answers")

    monkeypatch.setattr(containers, "every", failing)
    record("qwen3-4b-8000")

    assert named("qwen3-4b", "logs") is not None
    with pytest.raises(EngineError):  # it may be a container
        named("gpt-oss-20b", "logs")


def test_a_port_that_a_container_of_ours_has_is_told_with_its_name(
    boxes: list[BoxedServer],
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        boxes.append(box("dflash-qwen3-4b", "Qwen/Qwen3-4B", port))

        with pytest.raises(PortTaken, match="taken by dflash-qwen3-4b, which runs") as refused:
            check_port_free("127.0.0.1", port)
        assert str(refused.value.hint).startswith("dflash stop dflash-qwen3-4b, or --port ")
        boxes.clear()
        with pytest.raises(PortTaken, match="listens there"):
            check_port_free("127.0.0.1", port)
