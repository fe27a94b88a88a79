"""The page of a benchmark in a real browser: what is written stands in its place, and alone."""

from __future__ import annotations

import msgspec
import pytest
from playwright.sync_api import Page

from dflash_deploy.measure.html import render_html
from dflash_deploy.measure.report import Load, Report
from tests.fakes.reports import report

CLOSE = (1, 60, 64, 96, 100, 1000, 1024)
CLOSE_LOADS = report({
    "plain": {load: (100.0 * load,) for load in CLOSE},
    "dflash-16": {load: (110.0 * load,) for load in CLOSE},
})  # fmt: skip
MANY = report({"plain": {2**power: (100.0 * 2**power,) for power in range(11)}})


def arriving(closed: Report, keep: bool) -> Report:
    """Requests that arrive, beside those in flight or in their place."""
    rated = tuple(
        msgspec.structs.replace(cell, load=Load(rate=(cell.load.concurrency or 0) / 2))
        for cell in closed.cells
    )
    return msgspec.structs.replace(closed, cells=(closed.cells if keep else ()) + rated)


REPORTS = {
    "closed": report(), "close": CLOSE_LOADS, "many": MANY, "open": arriving(report(), False),
    "both": arriving(report(), True), "synthetic": report(synthetic=6.5),
}  # fmt: skip
MISPLACED = """() => [...document.querySelectorAll('figure > svg')].flatMap((figure) => {
  const room = figure.getBoundingClientRect();
  const words = [...figure.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
  const out = words.filter(([, at]) => at.left < room.left - 1 || at.right > room.right + 1);
  const over = words.filter(([, a], i) => words.slice(i + 1).some(([, b]) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
  return [...out, ...over].map(([text]) => text);
})"""


@pytest.mark.parametrize("name", REPORTS)
@pytest.mark.parametrize("width", [360, 1280])
def test_no_word_of_a_figure_is_cut_or_written_over(page: Page, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 700})
    page.set_content(render_html(REPORTS[name]))
    assert page.locator("figure > svg text").count()
    assert page.evaluate(MISPLACED) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_acceptance_by_place_is_seen_whole_on_a_screen(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 700})
    page.set_content(render_html(report()))
    table = page.get_by_role("region", name="Acceptance by Position")
    assert table.locator("thead th").last.inner_text() == "15"
    assert table.evaluate("(it) => it.scrollWidth <= it.clientWidth")
