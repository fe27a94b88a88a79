"""What goes wrong: the user reads one line and loses nothing."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.page.talk import answer, ask, ended, pieces, visit
from tests.unit.server.fakes import ScriptedDecoder, running

LONG = b"some words and " * 260


def endless(*_: object) -> bytes:
    return LONG


def question_is(page: Page, text: str) -> None:
    expect(page.get_by_label("Question")).to_have_value(text)
    expect(page.get_by_label("Question")).to_be_focused()


def test_stop_ends_the_decoding_and_keeps_what_came(page):
    decoder = ScriptedDecoder(endless, delay=0.02)
    with running(decoder) as server:
        visit(page, server.url)
        ask(page, "go on")
        expect(answer(page).locator(".text")).to_contain_text("some words")
        page.get_by_role("button", name="Stop").click()
        found = ended(page)
        expect(found.locator(".ending")).to_have_text("Stopped.")
        server.wait_until(lambda: decoder.closed != [])
        assert len(decoder.cycles) < len(LONG) / 4
        kept = "".join(text for _, text in pieces(found))
        question_is(page, "")
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        assert page.locator("#notice").is_hidden()
        # the next question follows what came
        decoder.script = lambda *_: b"fine"
        ask(page, "and now?")
        ended(page)
        assert decoder.cycles[-1] == f"user: go on\nassistant: {kept}\nuser: and now?\n"


def test_a_new_conversation_stops_the_old_one_for_good(page):
    decoder = ScriptedDecoder(endless, delay=0.02)
    with running(decoder) as server:
        visit(page, server.url)
        ask(page, "go on")
        expect(answer(page).locator(".text")).to_contain_text("some words")
        page.get_by_role("button", name="New conversation").click()
        server.wait_until(lambda: decoder.closed != [])
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        question_is(page, "")
        decoder.script = lambda *_: b"fine"
        ask(page, "and now?")
        ended(page)
        assert decoder.cycles[-1] == "user: and now?\n"


def test_a_comparison_that_is_stopped_can_be_had_again(page):
    decoder = ScriptedDecoder(lambda *_: LONG[:200])
    with running(decoder) as server:
        visit(page, server.url)
        ask(page, "go on")
        ended(page)
        decoder.delay = 0.02
        compare = page.get_by_role("button", name="Compare with plain decoding")
        compare.click()
        expect(answer(page, "Plain decoding").locator(".text")).to_contain_text("some words")
        page.get_by_role("button", name="Stop").click()
        expect(answer(page, "Plain decoding")).to_have_count(0)
        decoder.delay = 0
        compare.click()
        expect(page.locator(".verdict")).to_contain_text("The same text.")


def test_a_server_that_is_gone_leaves_the_question_and_the_conversation(page):
    with running() as server:
        visit(page, server.url)
        ask(page, "one")
        ended(page)
    ask(page, "two")
    expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
    question_is(page, "two")
    assert page.locator(".question").all_text_contents() == ["one"]


def test_an_answer_that_breaks_off_keeps_what_came(page):
    with running(ScriptedDecoder(endless, delay=0.02)) as server:
        visit(page, server.url)
        ask(page, "go on")
        expect(answer(page).locator(".text")).to_contain_text("some words")
    found = ended(page)
    expect(found.locator(".ending")).to_have_text("Broken off.")
    expect(page.get_by_role("alert")).to_contain_text("The server")
    assert "some words" in "".join(text for _, text in pieces(found))


def test_a_conversation_that_fills_the_context(page):
    with running(ScriptedDecoder(max_context=60)) as server:
        page.goto(f"{server.url}/")
        expect(page.locator("#model")).to_contain_text("context of 60 tokens")
        # the longest answer, 256 tokens, has no room; what is left has
        ask(page, "short enough")
        assert "".join(text for _, text in pieces(ended(page))) == "short enough"
        ask(page, "this one no longer fits")
        expect(page.get_by_role("alert")).to_have_text(
            "This no longer fits the model's context of 60 tokens."
            " Start a new conversation, or ask for less."
        )
        question_is(page, "this one no longer fits")
        page.get_by_role("button", name="New conversation").click()
        expect(page.locator("#notice")).to_be_hidden()
        question_is(page, "this one no longer fits")
        page.keyboard.press("Enter")
        ended(page)


def test_an_answer_that_fills_the_context_says_so(page):
    with running(ScriptedDecoder(endless, max_context=60)) as server:
        page.goto(f"{server.url}/")
        ask(page, "go on")
        expect(ended(page).locator(".ending")).to_have_text("Cut off: the context is full.")


def test_a_full_queue_is_told_in_the_server_s_words(page):
    with running(max_active=0, max_waiting=0) as server:
        visit(page, server.url)
        ask(page, "hello")
        expect(page.get_by_role("alert")).to_have_text(
            "The server says: 0 requests are waiting already; try again later."
        )
        question_is(page, "hello")


def test_a_key_is_asked_for_and_kept_nowhere(page):
    with running(api_key="sesame") as server:
        page.goto(f"{server.url}/")
        dialog = page.get_by_role("dialog", name="This server asks for a key")
        key = page.get_by_label("API key")
        expect(key).to_be_focused()
        assert key.get_attribute("type") == "password"
        key.fill("wrong")
        page.keyboard.press("Enter")
        expect(dialog).to_contain_text("The server does not take this key.")
        expect(key).to_have_value("")
        key.fill("sesame")
        page.get_by_role("button", name="Use this key").click()
        expect(dialog).to_be_hidden()
        ask(page, "hello there")
        assert "".join(text for _, text in pieces(ended(page))) == "hello there"
        kept = "[document.cookie, localStorage.length, sessionStorage.length, location.search]"
        assert page.evaluate(kept) == ["", 0, 0, ""]
        assert "sesame" not in page.content()
        page.reload()
        expect(dialog).to_be_visible()


@pytest.mark.parametrize("way", ["Escape", "Cancel"])
def test_who_has_no_key_keeps_the_question(page, way):
    with running(api_key="sesame") as server:
        page.goto(f"{server.url}/")
        dialog = page.get_by_role("dialog")

        def leave() -> None:
            expect(dialog).to_be_visible()
            if way == "Escape":
                page.keyboard.press("Escape")
            else:
                page.get_by_role("button", name="Cancel").click()
            expect(dialog).to_be_hidden()
            expect(page.get_by_role("alert")).to_contain_text("asks for its API key")

        leave()
        ask(page, "hello")
        leave()
        question_is(page, "hello")
        page.keyboard.press("Enter")
        page.get_by_label("API key").fill("sesame")
        page.keyboard.press("Enter")
        assert "".join(text for _, text in pieces(ended(page))) == "hello"


def test_a_wrong_setting_is_shown_where_it_is(page):
    with running() as server:
        visit(page, server.url)
        page.get_by_text("Settings").click()
        page.get_by_label("Longest answer").fill("0")
        page.get_by_text("Settings").click()
        ask(page, "hello")
        expect(page.get_by_label("Longest answer")).to_be_focused()
        expect(page.get_by_label("Question")).to_have_value("hello")
        assert page.locator(".turn").count() == 0


def test_a_server_that_comes_back_with_another_model_is_asked_as_that_one(page):
    refused = {"error": {"message": "no such model", "code": "model_not_found", "param": "model"}}
    with running(ScriptedDecoder(lambda *_: b"fine")) as server:
        visit(page, server.url)
        page.route("**/v1/chat/completions", lambda route: route.fulfill(status=404, json=refused),
                   times=1)  # fmt: skip
        names = []
        page.on("request", lambda sent: names.append(sent.url) if "models" in sent.url else None)
        ask(page, "who are you?")
        expect(page.get_by_role("alert")).to_contain_text("Another model answers here by now.")
        question_is(page, "who are you?")
        page.keyboard.press("Enter")
        ended(page)
        assert len(names) == 1
        assert page.locator("#notice").is_hidden()


@pytest.mark.parametrize("button", ["Stop", "New conversation"])
def test_a_server_that_does_not_say_its_name_is_waited_for_no_longer_than_wanted(page, button):
    with running() as server:
        asked = []

        def unanswered(route: Route) -> None:
            asked.append(route)

        page.route("**/v1/models", unanswered)
        page.goto(f"{server.url}/")
        ask(page, "hello")
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("button", name="Send")).to_be_visible()
        question_is(page, "hello" if button == "Stop" else "")
        assert page.locator("#notice").is_hidden()
        assert len(asked) == 1
        page.unroute("**/v1/models")
        page.get_by_label("Question").fill("who are you?")
        page.keyboard.press("Enter")
        assert "".join(text for _, text in pieces(ended(page))) == "who are you?"
