from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from dflash_deploy.errors import DownloadError, UsageError
from dflash_deploy.measure import workload
from dflash_deploy.measure.workload import OWN, hub_datasets, load_workload
from tests.fakes.hub import Fault, Hub, Repo, serving

MATH = [{"problem": "What is $1+1$?", "solution": "...", "answer": "2", "subject": "Algebra"},
        {"problem": r"Find \frac{1}{2}+x.", "answer": r"\frac{1}{2}", "subject": "Algebra"}]  # fmt: skip
TURNS = [{"question_id": 81, "category": "writing", "prompt": ["Write {this}.", "Shorter."]}]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", "/nonexistent")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    repos = {}
    for name, rows in (("math500", MATH), ("mt-bench", TURNS)):
        dataset = hub_datasets()[name]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        repos[dataset.repository] = Repo({dataset.file: lines.encode()}, dataset.revision)
    with serving(Hub(repos=repos)) as fake:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", fake.url)
        url = fake.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", url)
        monkeypatch.setenv("HF_ENDPOINT", fake.url)
        yield fake


@pytest.mark.parametrize("name", OWN)
def test_own_prompts_need_no_network_and_are_twelve_of_a_kind(name: str) -> None:
    told, prompts = load_workload(name, limit=None, seed=0)
    assert (told.name, told.prompts, told.categories) == (name, 12, {name: 12})
    assert len({prompt.text for prompt in prompts}) == 12


def test_mixed_is_all_of_them_and_the_default() -> None:
    told, _ = load_workload(workload.DEFAULT, limit=None, seed=0)
    assert told.categories == dict.fromkeys(sorted(OWN), 12)
    assert told.sha256 == load_workload("mixed", limit=None, seed=0)[0].sha256
    assert told.sha256 != load_workload("mixed", limit=None, seed=1)[0].sha256
    assert {prompt.category for prompt in load_workload("mixed", limit=7, seed=3)[1]} == set(OWN)


def test_long_prompts_are_long_and_their_answers_are_in_them() -> None:
    _, prompts = load_workload("long-context", limit=None, seed=0)
    for prompt in prompts:
        body, _, question = prompt.text.rpartition("\n\n")
        ship, day = (
            question.split("the ", 1)[1].split(" ")[0],
            question.split("day ")[1].split("?")[0],
        )
        entry = next(each for each in body.split("\n\n") if each.startswith(f"Day {day}."))
        assert f"the {ship} made fast" in entry
        assert f"landed {prompt.answer} tonnes" in entry
        assert 8_000 < len(prompt.text) < 40_000
    assert len({prompt.text[:20] for prompt in prompts}) == len(prompts)  # no common prefix


def test_the_long_text_is_the_same_on_every_machine() -> None:
    told, _ = load_workload("long-context", limit=None, seed=0)
    assert told.sha256.startswith("3a77e6d2ec3d52a4")


def test_a_cards_dataset_is_asked_as_the_cards_do_and_fetched_once(hub: Hub) -> None:
    said: list[str] = []
    told, prompts = load_workload("math500", limit=None, seed=0, on_phase=said.append)
    by_text = {prompt.text: prompt.answer for prompt in prompts}
    assert by_text == {
        "What is $1+1$?\nPlease reason step by step, and put your final answer within \\boxed{}.": "2",
        "Find \\frac{1}{2}+x.\nPlease reason step by step, and put your final answer within \\boxed{}.": r"\frac{1}{2}",
    }
    assert (told.max_tokens, told.source) == (2048, "HuggingFaceH4/MATH-500@6e4ed1a2a79a")
    assert said == ["downloading HuggingFaceH4/MATH-500"]
    asked = len(hub.asked)
    assert {each.path for each in hub.asked if "/resolve/" in each.path} == {
        "/datasets/HuggingFaceH4/MATH-500/resolve/6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be/test.jsonl"
    }
    assert load_workload("math500", limit=None, seed=0)[0] == told
    assert len(hub.asked) == asked


def test_without_a_network_the_second_time_works_and_the_first_says_so(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_workload("mt-bench", limit=1, seed=0)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load_workload("mt-bench", limit=1, seed=0)[1][0].text == "Write {this}."
    with pytest.raises(DownloadError, match="HF_HUB_OFFLINE is set") as caught:
        load_workload("math500", limit=1, seed=0)
    assert "\n" not in caught.value.message
    assert "--dataset mixed" in str(caught.value.hint)


def test_a_hub_that_cannot_be_reached_is_one_line(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(_: float) -> None:
        raise AssertionError("the client asks again and again, and says so on stderr")

    monkeypatch.setattr("time.sleep", waits)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(
        "huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/resolve/{revision}/{filename}",
    )
    with pytest.raises(DownloadError, match="cannot be reached") as caught:
        load_workload("math500", limit=1, seed=0)
    assert "\n" not in caught.value.message
    assert caught.value.detail == "[Errno 111] Connection refused"  # not that a cache has no file


LATER = "the same command again in a while; or --dataset mixed, which needs no network"
LOGIN = (
    "is HF_ENDPOINT right, and is there no login page in between? Else --dataset mixed,"
    " which needs no network"
)


@pytest.mark.parametrize(
    ("fault", "said", "hint"),
    [
        (Fault("/api/", "garbage"), "does not answer as a hub does", LOGIN),
        (Fault("/api/", "status", 503), r"failed on datasets/HuggingFaceH4/MATH-500 \(503", LATER),
        (Fault("/resolve/", "status", 503, times=9), r"the hub failed on .* \(503", LATER),
    ],
)  # fmt: skip
def test_a_hub_in_trouble_is_told_in_our_words_alone(
    hub: Hub, fault: Fault, said: str, hint: str,
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr("time.sleep", lambda _: None)  # the client's own five tries
    hub.faults.append(fault)
    with pytest.raises(DownloadError, match=said) as caught:
        load_workload("math500", limit=1, seed=0)
    assert (caught.value.exit_code, caught.value.hint) == (6, hint)
    assert capfd.readouterr() == ("", "")


def test_what_the_hub_client_has_in_its_cache_needs_no_hub(hub: Hub, tmp_path: Path) -> None:
    load_workload("math500", limit=1, seed=0)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    kept.unlink()
    asked = len(hub.asked)
    load_workload("math500", limit=1, seed=0)
    assert len(hub.asked) == asked


def test_a_file_that_came_damaged_and_a_mirror_of_something_else(hub: Hub) -> None:
    dataset = hub_datasets()["math500"]
    hub.repos[dataset.repository].files[dataset.file] = b"<html>please log in</html>"
    with pytest.raises(DownloadError, match="is no jsonl file"):
        load_workload("math500", limit=1, seed=0)
    other = hub_datasets()["mt-bench"]
    hub.repos[other.repository].files[other.file] = b'{"turns": ["Hi"]}\n'
    with pytest.raises(DownloadError, match="has other fields than it should"):
        load_workload("mt-bench", limit=1, seed=0)
    hub.repos[other.repository].files.clear()
    with pytest.raises(DownloadError, match="does not exist on the hub"):
        load_workload("gsm8k", limit=1, seed=0)


def test_a_kept_file_that_was_damaged_is_named(hub: Hub, tmp_path: Path) -> None:
    load_workload("math500", limit=1, seed=0)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    kept.write_bytes(b"{")
    with pytest.raises(DownloadError, match="is damaged") as caught:
        load_workload("math500", limit=1, seed=0)
    assert caught.value.hint == f"rm {kept}"


def _parquet(rows: list[dict[str, str]]) -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    stream = BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), stream)
    return stream.getvalue()


def test_a_parquet_file_is_read_with_pyarrow(hub: Hub) -> None:
    dataset = hub_datasets()["gsm8k"]
    rows = [{"question": "Two and two?", "answer": "They are four.\n#### 4"}]
    hub.repos[dataset.repository] = Repo({dataset.file: _parquet(rows)}, dataset.revision)
    _, (prompt,) = load_workload("gsm8k", limit=1, seed=0)
    assert prompt.text.startswith("Two and two?\nPlease reason")
    assert prompt.answer == "4"


def test_without_pyarrow_the_extra_is_named(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = hub_datasets()["humaneval"]
    hub.repos[dataset.repository] = Repo({dataset.file: b"PAR1"}, dataset.revision)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DownloadError, match="pyarrow") as caught:
        load_workload("humaneval", limit=1, seed=0)
    assert caught.value.hint == "pip install 'dflash-deploy[datasets]'"


def test_the_cards_prompts() -> None:
    row = {"prompt": "def f():", "question": "Q", "problem": "P"}
    assert {name: each.prompt.format(**row) for name, each in hub_datasets().items()} == {
        "gsm8k": "Q\nPlease reason step by step, and put your final answer within \\boxed{}.",
        "math500": "P\nPlease reason step by step, and put your final answer within \\boxed{}.",
        "humaneval": "Write a solution to the following problem and make sure that it passes the tests:\n```python\ndef f():\n```",
        "mbpp": "def f():",
        "mt-bench": "d",  # the first of its turns
    }
    assert all(len(each.revision) == 40 for each in hub_datasets().values())


def test_a_file_of_ones_own_and_a_name_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    path.write_text('{"prompt": "Hi"}\n')
    told, prompts = load_workload(str(path), limit=5, seed=0)
    assert (told.name, told.source, told.prompts) == ("mine", "mine.jsonl", 1)
    assert prompts[0].category == "own"
    with pytest.raises(UsageError, match="no workload `gsm9k`") as caught:
        load_workload("gsm9k", limit=1, seed=0)
    assert caught.value.hint == "did you mean gsm8k?"
    with pytest.raises(UsageError, match="cannot be read"):
        load_workload("no/such.jsonl", limit=1, seed=0)
