from __future__ import annotations

import json

from dflash_deploy.measure.asks import Style, Task, asks, random_ids, shard
from dflash_deploy.measure.prompts import Message, Prompt
from dflash_deploy.measure.report import Workload
from dflash_deploy.plan import Endpoint

VLLM = Endpoint("http://127.0.0.1:1", "m", "vllm")
WORKLOAD = Workload(name="w", source="s", sha256="0", prompts=2, max_tokens=33)
PROMPTS = (Prompt("One?", "chat"), Prompt("Two?", "chat", before=(Message("system", "Be kind."),)))


def bodies(task: Task, label: str = "w c=1 0", style: Style | None = None, count=3, endpoint=VLLM):
    packed = asks(task, style or Style(), endpoint, label, count, {"speculative": False})
    return [json.loads(ask.body) for ask in packed]


def test_prompts_go_round_and_every_request_begins_with_a_mark_of_its_own():
    sent = bodies(Task(WORKLOAD, PROMPTS))
    begins = [body["messages"][0]["content"] for body in sent]
    assert [text.partition("]\n")[2] for text in begins] == ["One?", "Be kind.", "One?"]
    assert len({text[:10] for text in begins}) == 3
    assert sent[1]["messages"][1] == {"role": "user", "content": "Two?"}
    assert all(body["stream"] and body["stream_options"]["include_usage"] for body in sent)
    assert all(body["max_tokens"] == 33 and body["speculative"] is False for body in sent)


def test_one_label_is_one_set_of_prompts_and_another_shares_none():
    task = Task(WORKLOAD, PROMPTS)
    assert bodies(task, "a") == bodies(task, "a")
    first, other = ({b["messages"][0]["content"] for b in bodies(task, la)} for la in "ab")
    assert not first & other
    assert bodies(task, "a", Style(seed=1)) != bodies(task, "a", Style(seed=2))


def test_a_seed_is_sent_only_where_answers_are_drawn():
    task = Task(WORKLOAD, PROMPTS)
    assert "seed" not in bodies(task)[0]
    assert [b["seed"] for b in bodies(task, style=Style(temperature=0.7, seed=5))] == [5, 6, 7]


def test_thinking_and_what_the_engine_is_asked_to_report():
    style = Style(template_kwargs={"enable_thinking": True}, extra={"ignore_eos": True})
    sglang = Endpoint("http://127.0.0.1:1", "m", "sglang")
    body = bodies(Task(WORKLOAD, PROMPTS), style=style, endpoint=sglang)[0]
    assert body["chat_template_kwargs"] == {"enable_thinking": True}
    assert body["ignore_eos"] is body["return_spec_tokens_details"] is True


def test_token_ids_for_a_server_without_a_tokenizer():
    task = random_ids(3, 40, 32000, 7)
    assert task == random_ids(3, 40, 32000, 7)
    sent = bodies(task, "a")
    assert all(len(body["prompt"]) == 40 and body["ignore_eos"] for body in sent)
    again = bodies(task, "b")
    assert all(
        one["prompt"][:16] != two["prompt"][:16] for one, two in zip(sent, again, strict=True)
    )
    assert asks(task, Style(), VLLM, "a", 1, {})[0].path == "/v1/completions"


def test_shards_are_disjoint_and_whole():
    whole = [Prompt(str(n), "x") for n in range(7)]
    parts = [shard(whole, rank, 3) for rank in range(3)]
    assert sorted(p.text for part in parts for p in part) == sorted(p.text for p in whole)
