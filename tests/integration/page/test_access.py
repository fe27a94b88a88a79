"""For those who use a keyboard, a screen reader, a small window, or the dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.integration.page.talk import ask, ended, visit
from tests.unit.server.fakes import running

CONTRAST = """
(selector) => {
  const channels = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const light = (colour) => {
    const [r, g, b] = channels(colour)
      .map((c) => c / 255)
      .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const back = (node) => {
    const colour = getComputedStyle(node).backgroundColor;
    return colour === 'rgba(0, 0, 0, 0)' ? back(node.parentElement) : colour;
  };
  return [...document.querySelectorAll(selector)].map((node) => {
    const pair = [light(getComputedStyle(node).color), light(back(node))].sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05);
  });
}
"""


@pytest.fixture(scope="module")
def server():
    with running() as server:
        yield server


def test_everything_is_done_by_keyboard(page, server):
    visit(page, server.url)
    question = page.get_by_label("Question")
    for _ in range(3):  # the page holds nothing else before it
        if question.evaluate("node => node === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(question).to_be_focused()
    page.keyboard.type("one")
    page.keyboard.press("Shift+Enter")
    page.keyboard.type("two")
    page.keyboard.press("Enter")
    ended(page)
    assert page.locator(".question").text_content() == "one\ntwo"
    expect(question).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(page.get_by_role("button", name="Compare with plain decoding")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator(".verdict")).to_be_visible()
    expect(question).to_be_focused()


def test_enter_that_ends_a_composition_sends_nothing(page, server):
    visit(page, server.url)
    question = page.get_by_label("Question")
    question.fill("にほん")
    question.dispatch_event("keydown", {"key": "Enter", "isComposing": True, "bubbles": True})
    assert page.locator(".turn").count() == 0
    expect(question).to_have_value("にほん")


def test_a_screen_reader_hears_the_answer_once_and_not_by_token(page, server):
    visit(page, server.url)
    page.evaluate(
        """() => {
          window.heard = [];
          const note = () => window.heard.push(document.querySelector('[role=status]').textContent);
          new MutationObserver(note).observe(
            document.querySelector('[role=status]'), { childList: true });
        }"""
    )
    ask(page, "hello there, said in many small steps")
    found = ended(page)
    heard = page.evaluate("window.heard")
    assert len(heard) == 2
    assert heard[0] == "Answering"
    assert heard[1].startswith("Answer: hello there, said in many small steps Draft accepted: ")
    live = "[aria-live], [role=log], [role=status], [role=alert]"
    assert found.evaluate("(node, live) => node.closest(live)", live) is None
    assert found.locator(live).count() == 0


def test_everything_has_a_name_and_headings_lead_through(page, server):
    visit(page, server.url)
    ask(page, "hello there")
    ended(page)
    unnamed = "[...document.querySelectorAll('input, textarea')].filter((n) => !n.labels.length)"
    assert page.evaluate(f"{unnamed}.map((n) => n.id)") == []
    assert page.get_by_role("heading", level=1).all_text_contents() == ["DFlash chat"]
    assert page.get_by_role("heading", level=2).all_text_contents() == ["hello there"]
    assert page.get_by_role("heading", level=3).all_text_contents() == ["DFlash"]
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1100])
def test_colours_can_be_read_and_nothing_is_cut(page, server, scheme, width):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 640})
    visit(page, server.url)
    ask(page, "hello there")
    ended(page)
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".verdict")).to_be_visible()
    page.get_by_text("Settings").click()
    seen = page.evaluate(CONTRAST, "p, span, dt, dd, h1, h2, h3, button, label, summary, textarea")
    assert len(seen) > 20
    assert min(seen) >= 4.5
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_low_window_shows_the_answer_beside_the_form(page, server):
    page.set_viewport_size({"width": 320, "height": 256})  # 1280 by 1024, four times as large
    visit(page, server.url)
    page.get_by_text("Settings").click()
    ask(page, "hello there")
    seen = """(node) => {
      node.scrollIntoView({ block: "center" });
      const box = node.getBoundingClientRect();
      return node.contains(document.elementFromPoint(box.x + 5, box.y + box.height / 2));
    }"""
    assert ended(page).locator(".text").evaluate(seen)


def test_origin_is_more_than_a_colour(page, server):
    visit(page, server.url)
    ask(page, "hello there")
    spans = ended(page).locator(".text > span")
    lines = spans.evaluate_all("nodes => nodes.map((n) => getComputedStyle(n).textDecorationLine)")
    assert lines[:3] == ["none", "underline", "none"]


def test_nothing_moves(page, server):
    page.emulate_media(reduced_motion="reduce")
    visit(page, server.url)
    ask(page, "hello there")
    ended(page)
    assert page.evaluate("document.getAnimations().length") == 0
    assert page.evaluate("getComputedStyle(document.documentElement).scrollBehavior") == "auto"
