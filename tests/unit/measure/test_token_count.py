"""Counting tokens with the target's own tokenizer, wherever it is."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from dflash_deploy.hub import cache
from dflash_deploy.measure.connection import context_at
from dflash_deploy.measure.token_count import by_file, by_server
from dflash_deploy.registry import load


@pytest.fixture
def snapshot(tmp_path, monkeypatch):
    """Where the snapshot of a target of the hub would be."""
    entry = load(user=False).find("qwen3-8b")
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    folder = cache.Cached(tmp_path, entry.id).snapshot(str(entry.target.weights[0].revision))
    folder.mkdir(parents=True)
    return folder


def test_a_tokenizer_beside_the_weights_counts(snapshot):
    entry = load(user=False).find("qwen3-8b")
    assert by_file(entry) is None
    made = Tokenizer(models.WordLevel({"one": 0, "?": 1}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(snapshot / "tokenizer.json"))
    count = by_file(entry)
    assert count is not None
    assert count("one and one") == 3
    (snapshot / "tokenizer.json").write_text("{")
    assert by_file(entry) is None


def test_a_server_counts_and_says_its_context(serve):
    endpoint = serve("vllm", flags=("--max-model-len", "2048"))
    count = by_server(endpoint)
    assert count is not None
    assert count("one and one") == 3
    assert context_at(endpoint) == 2048
