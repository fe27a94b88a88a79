from __future__ import annotations

from msgspec.structs import replace

from dflash_deploy.measure.asks import Task, random_ids
from dflash_deploy.measure.fitting import remedies, room_for, said
from dflash_deploy.measure.prompts import Message, Prompt
from dflash_deploy.measure.report import Workload

WORKLOAD = Workload(name="w", source="s", sha256="0", prompts=2, max_tokens=512)
LONG = Prompt("word " * 3000, "chat", before=(Message("system", "Be kind."),))
TASK = Task(WORKLOAD, (Prompt("Short?", "chat"), LONG))


def words(text: str) -> int:
    return len(text.split())


def test_token_ids_are_counted_exactly():
    task = random_ids(3, 256, 32000, 0)
    assert not room_for(task, 768, None).too_long
    found = room_for(task, 767, None)
    assert len(found.too_long) == 3
    assert said(found) == (
        "3 of 3 prompts of tokens-256 do not fit a context of 767: the longest has 256 tokens, and"
        " its answer up to 512"
    )
    assert list(remedies(found, 32768))[:3] == [
        "--context 1024", "--max-tokens 510", "--workload tokens:254"
    ]  # fmt: skip


def test_texts_are_counted_where_their_bytes_leave_it_open():
    counted = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    found = room_for(TASK, 3400, count)
    assert counted == ["Be kind.", LONG.text]
    assert [each.tokens for each in found.too_long] == [3002]
    assert said(found).startswith("1 of 2 prompts of w does not fit a context of 3400: the longest")
    assert next(remedies(found, None)) == "--context 4096"
    assert next(remedies(found, 4000)) == "--workload FILE.jsonl, of shorter prompts"
    assert not room_for(TASK, 3600, count).too_long


def test_without_a_tokenizer_bytes_say_what_fits_and_not_what_does_not():
    found = room_for(TASK, 3400, None)
    assert (found.too_long, found.unknown) == ((), 1)
    assert room_for(TASK, 32768, None).unknown == 0


def test_an_answer_as_long_as_the_context_leaves_no_room_for_any_prompt():
    found = room_for(replace(TASK, workload=replace(WORKLOAD, max_tokens=2048)), 2048, None)
    assert (len(found.too_long), found.unknown) == (2, 0)
    assert said(found) == (
        "answers of up to 2048 tokens leave a context of 2048 no room for a prompt of w"
    )
    assert next(remedies(found, 2048)) == "--max-tokens 1535"
