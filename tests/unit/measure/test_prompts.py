from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dflash_deploy.errors import UsageError
from dflash_deploy.measure.prompts import Message, Prompt, digest, read_prompts, sample

PROMPTS = st.lists(
    st.builds(Prompt, st.text(min_size=1), st.sampled_from(["math", "code", "chat"])),
    unique_by=lambda prompt: prompt.text,
)


def written(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(lines))
    return path


def test_a_file_of_the_users_own(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        '{"prompt": "2 + 2?", "category": "sums", "answer": "4"}',
        "",
        '{"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]}',
    )
    first, second = read_prompts(path, "own")
    assert first == Prompt("2 + 2?", "sums", "4")
    assert second == Prompt("Hi", "own", None, (Message("system", "Be brief."),))
    assert second.messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "truncated"),
        ('{"prompt": ' + "[" * 9999 + "]" * 9999 + "}", "Expected `str | null`"),
        (r'{"prompt": "a \ud83d b"}', r"\ud83d is half of a character"),
        ('{"promt": "x"}', "unknown field `promt`"),
        ('{"category": "x"}', "needs `prompt` or `messages`"),
        ('{"prompt": "x", "messages": []}', "not both"),
        ('{"messages": []}', "say something"),
        ('{"prompt": " "}', "say something"),
        ('{"messages": [{"role": "assistant", "content": "x"}]}', "must be the user's"),
        ('{"prompt": 3}', "Expected `str | null`, got `int`"),
        ('{"answer": "\xff"}', "needs"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    with pytest.raises(UsageError, match=r"mine\.jsonl:2: ") as caught:
        read_prompts(written(tmp_path, '{"prompt": "fine"}', line), "own")
    assert why in caught.value.message
    assert caught.value.hint


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_prompts(tmp_path / "none.jsonl", "own")
    with pytest.raises(UsageError, match="holds no prompts"):
        read_prompts(written(tmp_path, "", " "), "own")
    (tmp_path / "latin.jsonl").write_bytes(b'{"prompt": "caf\xe9"}')
    with pytest.raises(UsageError, match=r"latin\.jsonl:1: "):
        read_prompts(tmp_path / "latin.jsonl", "own")


@given(PROMPTS, st.integers(0, 50), st.integers(0, 5))
def test_a_sample_is_the_same_each_time_and_asks_nothing_twice(
    prompts: list[Prompt], limit: int, seed: int
) -> None:
    taken = sample(prompts, limit, seed)
    assert taken == sample(prompts, limit, seed)
    assert len(taken) == min(limit, len(prompts))
    assert len({prompt.text for prompt in taken}) == len(taken)
    assert sample(prompts, None, seed)[:limit] == taken


def test_a_sample_takes_the_categories_in_turn_and_another_seed_takes_others() -> None:
    prompts = [Prompt(f"{name}{i}", name) for name in ("a", "b", "c") for i in range(20)]
    assert [each.category for each in sample(prompts, 6, 0)] == ["a", "b", "c", "a", "b", "c"]
    assert sample(prompts, 6, 0) != sample(prompts, 6, 1)


def test_the_digest_is_of_what_is_sent() -> None:
    one, two = Prompt("a", "x"), Prompt("b", "x")
    assert digest([one, two]) != digest([two, one])
    assert digest([one]) == digest([Prompt("a", "y", "known")])
    assert digest([one]) != digest([Prompt("a", "x", None, (Message("system", "s"),))])
