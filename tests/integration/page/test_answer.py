"""Questions and answers: what is coloured, counted, compared and told."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.integration.page.talk import answer, ask, ended, numbers, pieces, visit
from tests.unit.server.fakes import EOS, ScriptedDecoder, running


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


def test_each_step_s_accepted_tokens_are_coloured_apart_from_the_target_s_own(page, server):
    visit(page, server.url)
    ask(page, "hello there")
    found = ended(page)
    # prefill, then blocks of 4, the last of which is the token that ends the answer
    assert pieces(found) == [
        ("", "h"),
        ("draft", "ell"),
        ("", "o"),
        ("draft", " th"),
        ("", "e"),
        ("draft", "re"),
    ]
    told = numbers(found)
    assert (told["Draft accepted"], told["Tokens a step"], told["Tokens"]) == ("89 %", "3.67", "12")
    assert float(told["Seconds"]) >= 0
    assert float(told["Tokens a second"]) > 0


@pytest.mark.parametrize(
    "text",
    [
        "naïve 日本 👩‍👩‍👧 ok",
        "**bold** <b>not bold</b> <script>document.title='x'</script> `code` &amp; # no heading",
        "שלום עולם, مرحبا بالعالم",
        "w" * 240,
    ],
)
def test_whatever_was_written_is_there_as_text_and_in_the_window(page, server, text):
    page.set_viewport_size({"width": 320, "height": 640})
    visit(page, server.url)
    ask(page, text)
    found = ended(page)
    assert "".join(part for _, part in pieces(found)) == text
    assert page.locator(".question").text_content() == text
    assert found.locator(".text *:not(span)").count() == 0
    assert page.title() == "DFlash chat"
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_a_text_runs_in_its_own_direction(page, server):
    visit(page, server.url)
    for text, direction in (("مرحبا بالعالم", "rtl"), ("hello", "ltr")):
        ask(page, text)
        words = ended(page).locator(".text")
        assert words.evaluate("node => getComputedStyle(node).direction") == direction


def test_a_conversation_goes_on_and_a_new_one_forgets_it(page, server):
    visit(page, server.url)
    for text in ("one", "two"):
        ask(page, text)
        ended(page)
    assert server.decoder.cycles[-1] == "user: one\nassistant: one\nuser: two\n"
    page.get_by_role("button", name="New conversation").click()
    assert page.locator(".turn").count() == 0
    ask(page, "three")
    ended(page)
    assert server.decoder.cycles[-1] == "user: three\n"


def test_plain_decoding_is_asked_the_same_and_compared(page, server):
    visit(page, server.url)
    ask(page, "hello there")
    ended(page)
    page.get_by_role("button", name="Compare with plain decoding").click()
    expect(page.locator(".verdict")).to_have_text(
        re.compile(r"^The same text\. DFlash \d+\.\d\d s, plain decoding \d+\.\d\d s: .*fast\.$")
    )
    plain = ended(page, "Plain decoding")
    assert {kind for kind, _ in pieces(plain)} == {""}
    assert "Draft accepted" not in numbers(plain)
    assert server.decoder.cycles[-1] == "user: hello there\n"
    assert server.decoder.samplings[-1] == server.decoder.samplings[-2]
    ask(page, "again")
    assert "Plain, last measured" in numbers(ended(page))


DFLASH = {"text": "one two", "tally": {"tokens": 9, "seconds": 2.0, "decode": 2.0}}


@pytest.mark.parametrize(
    ("plain", "temperature", "said"),
    [
        (
            {"text": "one two", "tally": {"tokens": 9, "seconds": 3.0, "decode": 3.0}},
            0,
            "The same text. DFlash 2.00 s, plain decoding 3.00 s: 1.50 times as fast.",
        ),
        (
            {"text": "one two", "tally": {"tokens": 9, "seconds": 1.6, "decode": 1.6}},
            0,
            (
                "The same text. DFlash 2.00 s, plain decoding 1.60 s: "
                "DFlash was slower here, 0.80 times as fast."
            ),
        ),
        (
            {"text": "one two", "tally": {"tokens": 9, "seconds": 2.004, "decode": 2.0}},
            0,
            "The same text. DFlash 2.00 s, plain decoding 2.00 s: equally fast.",
        ),
        (
            {"text": "one too", "tally": {"tokens": 17, "seconds": 8.0, "decode": 8.0}},
            0,
            (
                "ANOTHER TEXT after 5 characters. "
                "Two tokens were as likely, or it is a fault: dflash verify tells which. "
                "DFlash 4.0 tokens a second, plain decoding 2.0: 2.00 times as fast."
            ),
        ),
        (
            {"text": "1 2", "tally": {"tokens": 1, "seconds": 8.0, "decode": 0.0}},
            0.7,
            (
                "Another text, as answers at temperature 0.7 are. "
                "DFlash 4.0 tokens a second, plain decoding -."
            ),
        ),
    ],
)
def test_the_verdict_is_honest(page, server, plain, temperature, said):
    visit(page, server.url)
    words = page.evaluate(
        "async ([one, other, temperature]) =>"
        " (await import('/static/numbers.js')).verdict(one, other, temperature)",
        [DFLASH, plain, temperature],
    )
    assert words == said


def test_a_server_without_a_draft_offers_no_comparison(page):
    with running(ScriptedDecoder(block_size=1)) as server:
        visit(page, server.url)
        ask(page, "hello")
        found = ended(page)
        assert {kind for kind, _ in pieces(found)} == {""}
        assert page.get_by_role("button", name="Compare").count() == 0


def test_a_long_answer_follows_its_end_and_leaves_a_reader_alone(page):
    decoder = ScriptedDecoder(lambda *_: [*(b"line of words\n" * 150), EOS], delay=0.004)
    with running(decoder) as server:
        visit(page, server.url)
        page.get_by_text("Settings").click()
        page.get_by_label("Longest answer").fill("4000")
        ask(page, "go")
        bottom = "innerHeight + scrollY > document.documentElement.scrollHeight - 60"
        server.wait_until(lambda: page.evaluate(f"scrollY > 200 && {bottom}"), 20)
        page.evaluate("scrollTo(0, 40)")
        expect(answer(page).locator(".text")).to_contain_text("line of words\n" * 140)
        ended(page)
        assert page.evaluate("scrollY") == 40


def test_settings_reach_the_server(page, server):
    visit(page, server.url)
    page.get_by_text("Settings").click()
    page.get_by_label("Longest answer").fill("3")
    page.get_by_label("Temperature").fill("0.7")
    ask(page, "hello there")
    assert "Cut off after 3 tokens" in (ended(page).text_content() or "")
    assert server.decoder.samplings[-1].max_new_tokens == 3
    assert server.decoder.samplings[-1].temperature == 0.7


def test_the_page_talks_to_its_own_server_alone(page, server):
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    visit(page, server.url)
    ask(page, "hello there")
    ended(page)
    assert {httpx.URL(url).netloc for url in asked} == {httpx.URL(server.url).netloc}
