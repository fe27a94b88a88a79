"""`spec_generate` as published model cards call it, from files on disk."""

import copy
import gc
import weakref

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

from dflash_deploy.errors import Unsupported
from dflash_deploy.speculative import decoder, load_draft
from dflash_deploy.speculative.load import as_target
from tests.unit.speculative.tiny import (
    draft_json,
    draft_model,
    generated,
    save_draft,
    target_model,
)

WORDS = [
    "<end>",
    "<user>",
    "<model>",
    "<quiet>",
    "<unknown>",
    "how",
    "many",
    "divisors",
    "has",
    "it",
]
VOCAB = len(WORDS)
TEMPLATE = (
    "{% for message in messages %}<user> {{ message.content }} <end> {% endfor %}"
    "{% if add_generation_prompt %}<model>{% if enable_thinking is false %} <quiet>{% endif %}{% endif %}"
)
MESSAGES = [{"role": "user", "content": "how many divisors has it"}]
PROMPT = [1, 5, 6, 7, 8, 9, 0, 2, 3]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("pair")
    words = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unknown>"))
    words.pre_tokenizer = WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, eos_token="<end>", unk_token="<unknown>", chat_template=TEMPLATE
    )
    target_model("qwen3", vocab=VOCAB).save_pretrained(root / "target")
    tokenizer.save_pretrained(root / "target")
    save_draft(root / "draft", draft_json(vocab=VOCAB))
    return root


@pytest.fixture
def pair(folders):
    draft = load_draft(folders / "draft", dtype="auto", device_map="cpu").eval()
    target = AutoModelForCausalLM.from_pretrained(
        folders / "target", dtype="auto", device_map="cpu"
    ).eval()
    return draft, target, AutoTokenizer.from_pretrained(folders / "target")


def expected(target, stop, count=40):
    """What transformers says, up to the stop token."""
    answer = generated(target, PROMPT, count)
    return [*PROMPT, *(answer[: answer.index(stop) + 1] if stop in answer else answer)]


def test_a_cards_transformers_example_runs_with_only_the_drafts_loading_changed(pair):
    draft, target, tokenizer = pair
    text = tokenizer.apply_chat_template(
        MESSAGES, tokenize=False, add_generation_prompt=True, enable_thinking=False
    )
    inputs = tokenizer([text], return_tensors="pt").to(draft.device)
    out = draft.spec_generate(
        input_ids=inputs["input_ids"],
        max_new_tokens=40,
        temperature=0.0,
        target=target,
        stop_token_ids=[tokenizer.eos_token_id],
    )
    assert out.dtype == torch.long
    assert out.tolist() == [expected(target, tokenizer.eos_token_id)]
    shown = tokenizer.decode(out[0], skip_special_tokens=True)
    assert shown.startswith("<user> how many divisors has it <model> <quiet>")
    assert "<end>" not in shown


@pytest.mark.parametrize("settings", [{}, {"return_dict": True}, {"return_dict": False}])
def test_what_the_chat_template_returns_is_taken_as_it_is(pair, settings):
    draft, target, tokenizer = pair
    inputs = tokenizer.apply_chat_template(
        MESSAGES,
        return_tensors="pt",
        add_generation_prompt=True,
        enable_thinking=False,
        **settings,
    ).to(draft.device)
    stop = tokenizer.eos_token_id
    out = draft.spec_generate(
        input_ids=inputs, max_new_tokens=40, target=target, stop_token_ids=[stop]
    )
    assert out.tolist() == [expected(target, stop)]


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (torch.ones(2, 3, dtype=torch.long), ValueError, r"shape \[2, 3\]; it should be one row"),
        (torch.ones(3, dtype=torch.long), ValueError, r"shape \[3\]; it should be one row"),
        (torch.ones(1, 3), TypeError, "torch.float32; it should be a tensor of token ids"),
        ([[1, 2, 3]], TypeError, "list; it should be a tensor of token ids"),
        ({"input_ids": [[1, 2]]}, TypeError, "list; it should be a tensor of token ids"),
        ({"tokens": 1}, TypeError, "NoneType; it should be a tensor of token ids"),
        (torch.ones(1, 0, dtype=torch.long), ValueError, "the prompt is empty"),
        (torch.full((1, 2), VOCAB), ValueError, "outside the vocabulary"),
        (torch.ones(1, 250, dtype=torch.long), ValueError, "258 tokens of 256"),
        (
            {"input_ids": torch.ones(1, 2).long(), "attention_mask": torch.tensor([[0, 1]])},
            ValueError,
            "padded",
        ),
    ],
)
def test_a_wrong_prompt_is_named(pair, wrong, error, words):
    draft, target, _ = pair
    with pytest.raises(error, match=words):
        draft.spec_generate(wrong, 8, target=target)


def test_a_seed_repeats_an_answer(pair):
    draft, target, _ = pair
    ids = torch.tensor([PROMPT])

    def answers(seeds):
        return {
            tuple(draft.spec_generate(ids, 30, 1.5, target=target, seed=s)[0].tolist())
            for s in seeds
        }

    assert len(answers([1] * 4)) == 1
    assert len(answers([None] * 4)) > 1


def test_another_targets_draft_is_refused(pair):
    _, target, _ = pair
    with pytest.raises(Unsupported, match="another target"):
        draft_model().spec_generate(torch.tensor([PROMPT]), 4, target=target)


@pytest.fixture
def made(monkeypatch):
    """How many proposers were made: packing and rounding happen there."""
    count = []
    proposer = decoder.Proposer

    def counted(*arguments):
        count.append(1)
        return proposer(*arguments)

    monkeypatch.setattr(decoder, "Proposer", counted)
    return count


# our own forward pass, transformers', and both as `load_target` returns them
FAMILIES = ["qwen3", "gemma2"]
TARGETS = [(family, ours) for family in FAMILIES for ours in (False, True)]


@pytest.fixture(params=TARGETS, ids=str)
def fresh(request):
    """Makes one more target of a kind, with other weights for another seed."""
    family, ours = request.param

    def make(seed=0):
        model = target_model(family, vocab=VOCAB, seed=seed)
        return as_target(model) if ours else model

    return make


def run(draft, target):
    return draft.spec_generate(torch.tensor([PROMPT]), 12, target=target)[0].tolist()


def test_a_second_call_makes_nothing_again(made, fresh):
    draft, one, two = draft_model(draft_json(vocab=VOCAB)), fresh(), fresh(seed=1)
    first, second = run(draft, one), run(draft, two)
    assert first != second
    assert len(made) == 2
    assert (run(draft, one), run(draft, two)) == (first, second)
    assert len(made) == 2


def test_neither_draft_nor_target_is_kept_alive(made, fresh):
    draft, target = draft_model(draft_json(vocab=VOCAB)), fresh()
    run(draft, target)
    gone = weakref.ref(target)
    del target
    gc.collect()
    assert gone() is None
    target, gone = fresh(), weakref.ref(draft)
    run(draft, target)
    del draft
    gc.collect()
    assert gone() is None


def test_a_target_whose_weights_were_changed_is_read_again(made):
    draft = draft_model(draft_json(vocab=VOCAB))
    target, other = target_model(vocab=VOCAB), target_model(vocab=VOCAB, seed=1)
    run(draft, target)
    target.load_state_dict(other.state_dict())
    assert run(draft, target) == run(draft, other)
    target.double()
    run(draft, target)
    assert len(made) == 4


def test_a_draft_in_use_can_still_be_copied_and_saved(tmp_path):
    draft, target = draft_model(draft_json(vocab=VOCAB)), target_model(vocab=VOCAB)
    answer = run(draft, target)
    assert run(copy.deepcopy(draft), target) == answer
    torch.save(draft, tmp_path / "draft.pt")
