"""A whole run, from prompts to a measured draft, with a tiny target; and what may go wrong."""

from __future__ import annotations

import json

import msgspec
import pytest

from dflash_deploy.errors import DownloadError, Unsupported, UsageError
from dflash_deploy.measure.judged import Compared, judge
from dflash_deploy.speculative import SpeculativeDecoder, load_draft
from dflash_deploy.speculative.load import load_model
from dflash_deploy.speculative.types import Sampling
from dflash_deploy.train import acceptance, answers, files, prompts, recipe
from dflash_deploy.train.acceptance import Acceptance
from dflash_deploy.train.blocks import Answer
from dflash_deploy.train.events import Stopped
from dflash_deploy.train.loop import CURVE, Point
from dflash_deploy.train.walk import Walk
from dflash_deploy.train.work import Work
from tests.unit.speculative import tiny
from tests.unit.train import small


def work(folder, stop=lambda: False, say=lambda _: None) -> None:
    Work(folder, say, stop, None).run()


def stopped_at(place, folder, began) -> None:
    seen = []
    try:
        work(folder, stop=lambda: place in [(e.stage, e.done) for e in seen], say=seen.append)
    finally:
        began.append(next((e.stage, e.done) for e in seen if e.stage != "load"))


def begun(folder, target, **changed):
    folder.mkdir(exist_ok=True)
    asked = folder / "asked.jsonl"
    # the shipped ones change, and may be longer than this recipe's length
    asked.write_text("".join(f'{{"prompt": "What is {n} times {n}?"}}\n' for n in range(10)))
    values = {"model": str(target), "path": str(asked), "prompts": 10, "held_out": 2,
              "answer_tokens": 24, "length": 160, "anchors": 4, "steps": 6}  # fmt: skip
    plan = small.recipe(**values | changed)
    recipe.begin(folder, plan)
    return plan


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return small.saved_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, target):
    """The folder of a run that nothing interrupted."""
    folder = tmp_path_factory.mktemp("whole")
    begun(folder, target)
    work(folder)
    return folder


def test_from_prompts_to_a_draft_that_serves(target, whole):
    plan = recipe.read(whole)
    said = files.read_lines(whole / answers.FILE, Answer)
    assert [answer.id for answer in said] == list(range(8))
    found = msgspec.json.decode((whole / recipe.MEASURED).read_bytes(), type=Acceptance)
    assert (found.prompts, found.checked, found.equal) == (2, 2, 2)
    assert found.acceptance_length >= 1
    model = load_model(target, dtype="float32")
    draft = load_draft(whole / "tiny-DFlash")
    assert draft.config.block_size == plan.block_size
    row = answers.usable(said)[0].input_ids[:9]
    ends = frozenset([model.config.eos_token_id])
    steps = SpeculativeDecoder(model, draft).generate(row, Sampling(20, stop_token_ids=ends))
    assert tiny.tokens(steps) == tiny.generated(model, row, 20)


def test_prompts_that_leave_no_room_for_an_answer_are_counted(tmp_path, target):
    plan = begun(tmp_path / "run", target, prompts=4, held_out=1, steps=1)
    asked = tmp_path / "run" / "asked.jsonl"
    asked.write_text('{"prompt": "Hi"}\n' * 3 + f'{{"prompt": "{"long " * 40}"}}\n')
    seen = []
    work(tmp_path / "run", say=seen.append)
    said = [event.said for event in seen if event.stage is None]
    assert len(said) == 1
    assert said[0].startswith("1 of 3 prompts are left out")
    assert str(plan.length) in said[0]


def test_interrupted_in_each_stage_it_comes_to_the_same_draft(tmp_path, target, whole):
    begun(tmp_path / "cut", target)
    began = []
    for place in (("answers", 3), ("train", 2), ("acceptance", 1)):
        with pytest.raises(Stopped):
            stopped_at(place, tmp_path / "cut", began)
    # what was done is not done again
    assert began == [("answers", 0), ("answers", 3), ("train", 3)]
    work(tmp_path / "cut")
    for name in ("answers.jsonl", "prompts.jsonl", "acceptance.json", "tiny-DFlash/config.json",
                 "tiny-DFlash/model.safetensors"):  # fmt: skip
        assert (tmp_path / "cut" / name).read_bytes() == (whole / name).read_bytes()
    assert len(files.read_lines(tmp_path / "cut" / CURVE, Point)) == 6


def test_interrupted_while_answers_are_decoded_both_ways(tmp_path, target, whole):
    begun(tmp_path / "cut", target)
    for name in ("answers.jsonl", "held-out.jsonl", "tiny-DFlash"):
        (tmp_path / "cut" / name).symlink_to(whole / name)
    asked = []
    with pytest.raises(Stopped):
        # once behind each of the two walks, then before the first of the two that are decoded
        work(tmp_path / "cut", stop=lambda: asked.append(0) or len(asked) == 3)
    assert not (tmp_path / "cut" / recipe.MEASURED).exists()


def test_a_line_that_was_cut_off_is_answered_again(tmp_path, target, whole):
    begun(tmp_path / "cut", target)
    lines = (whole / "answers.jsonl").read_bytes()
    (tmp_path / "cut" / "answers.begun.jsonl").write_bytes(lines[: len(lines) // 2])
    work(tmp_path / "cut")
    assert (tmp_path / "cut" / "answers.jsonl").read_bytes() == lines


def test_another_recipe_in_the_same_folder_is_refused(tmp_path, target):
    begun(tmp_path, target)
    with pytest.raises(UsageError, match="steps 6, not 7"):
        begun(tmp_path, target, steps=7)
    begun(tmp_path, "elsewhere", url="http://127.0.0.1:1")


def test_a_target_without_a_chat_template(tmp_path):
    folder = small.saved_target(tmp_path / "target", template=None)
    begun(tmp_path / "run", folder)
    with pytest.raises(Unsupported, match="no chat template") as caught:
        work(tmp_path / "run")
    assert "chat_template.jinja" in caught.value.hint


def test_a_target_without_a_tokenizer(tmp_path):
    folder = tmp_path / "target"
    tiny.target_model().save_pretrained(folder)
    begun(tmp_path / "run", folder)
    with pytest.raises(DownloadError, match=f"{folder} has no tokenizer") as caught:
        work(tmp_path / "run")
    assert "tokenizer.json" in (caught.value.hint or "")
    assert caught.value.detail is None


def test_a_target_without_a_token_for_the_mask(tmp_path):
    folder = small.saved_target(tmp_path / "target", unused=None)
    begun(tmp_path / "run", folder)
    with pytest.raises(UsageError, match="unused") as caught:
        work(tmp_path / "run")
    assert "--mask-token" in caught.value.hint
    begun(tmp_path / "other", folder, mask_token_id=5)
    work(tmp_path / "other")
    written = json.loads((tmp_path / "other" / "tiny-DFlash" / "config.json").read_text())
    assert written["dflash_config"]["mask_token_id"] == 5


def test_prompts_of_the_user(tmp_path):
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(f'{{"prompt": "question {n}"}}\n' for n in range(6)))
    plan = small.recipe(path=str(file), prompts=5, held_out=2)
    taken = prompts.chosen(plan)
    assert len(taken) == 5
    assert taken == prompts.chosen(plan)
    assert taken != prompts.chosen(small.recipe(path=str(file), prompts=5, held_out=2, seed=6))
    assert [each.id for each in prompts.held_out(taken, plan)] == [3, 4]
    with pytest.raises(UsageError, match="too few"):
        prompts.chosen(small.recipe(path=str(file), held_out=6))


def test_own_prompts_are_of_each_kind_and_all_different():
    every = prompts.own(4000, seed=1)
    texts = [messages[0]["content"] for _, messages in every]
    assert len(set(texts)) == len(texts) == 4000
    assert {kind for kind, _ in every} == {
        "chat", "writing", "math", "code", "extraction", "translation", "chinese", "document",
    }  # fmt: skip
    assert every == prompts.own(4000, seed=1) != prompts.own(4000, seed=2)


def test_acceptance_by_position_and_kind():
    walks = [Walk(7, (2, 0)), Walk(8, (1, 3))]
    same = [Compared(str(walk.id), None, False, False) for walk in walks]
    found = acceptance.summed(walks, {7: "math", 8: "chat"}, 4, judge(same))
    assert found == Acceptance(
        2.5, [0.75, 0.5, 0.25], {"chat": 3.0, "math": 2.0}, prompts=2, tokens=10, checked=2, equal=2
    )
