from dflash_deploy.measure.lossless import Token, first_divergence
from dflash_deploy.measure.told import answer_of


def entry(token, logprob, *top, spelled=...):
    spelled = list(token.encode()) if spelled is ... else spelled
    return {"token": token, "bytes": spelled, "logprob": logprob, "top_logprobs": list(top)}


def response(*entries, content="", **message):
    logprobs = {"content": list(entries)} if entries else None
    return {"choices": [{"message": {"content": content, **message}, "logprobs": logprobs}]}


def test_tokens_keep_what_else_they_might_have_been():
    answer = answer_of(response(entry("a", -0.1, entry("a", -0.1), entry("b", -2.5)), content="a"))
    assert (answer.text, answer.tokens) == ("a", (Token("a", -0.1, {"a": -0.1, "b": -2.5}),))


def test_halves_of_different_characters_differ_though_their_texts_do_not():
    ours, theirs = entry("\ufffd", -0.1, spelled=[0xC3]), entry("\ufffd", -0.2, spelled=[0xC4])
    plain = answer_of(response(entry("\ufffd", -0.1, ours, theirs, spelled=[0xC3])))
    found = first_divergence(plain, answer_of(response(theirs)))
    assert (found.plain, found.dflash) == ("\\xc3", "\\xc4")
    assert abs(found.regret - 0.1) < 1e-9


def test_a_token_without_bytes_is_known_by_its_text():
    assert answer_of(response(entry("a", -0.1, spelled=None))).tokens[0].text == "a"


def test_what_a_model_thought_belongs_to_its_answer():
    for field in ("reasoning", "reasoning_content"):
        assert answer_of(response(content="4", **{field: "2+2. "})).text == "2+2. 4"


def test_without_log_probabilities_there_is_text_alone():
    answer = answer_of(response(content="yes"))
    assert (answer.text, answer.tokens) == ("yes", ())
    assert answer_of(response(content=None)).text == ""
