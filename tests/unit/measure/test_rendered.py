"""Reports as documents. Write the golden files anew with `--update`."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from jinja2 import UndefinedError
from markdown_it import MarkdownIt

from dflash_deploy.measure import html
from dflash_deploy.measure.html import render_html
from dflash_deploy.measure.markdown import render_markdown
from dflash_deploy.measure.plots import BOTTOM, LEFT, RIGHT, TOP, figures
from dflash_deploy.measure.record import published_for
from dflash_deploy.measure.report import Report
from dflash_deploy.measure.tables import facts, milliseconds, tables
from dflash_deploy.registry import load
from dflash_deploy.schema import Evidence, Measurement
from tests.fakes.reports import GENTLE, report

GOLDEN = Path(__file__).parents[2] / "golden" / "reports"
PUBLISHED = [
    Evidence(
        outcome="published", engine="sglang", version=None, gpu="B200", date=None, block_size=16,
        how="card", source="a card",
        results=[
            Measurement(task="math500", concurrency=1, acceptance_length=8.0, speedup=5.1),
            Measurement(task="math500", concurrency=32, acceptance_length=8.0, speedup=2.8),
        ],
    )
]  # fmt: skip
REPORTS = {
    "real": report(),
    "synthetic": report(synthetic=6.5),
    "troubled": report(
        {"plain": {1: (100,), 8: (700,)}, "dflash-16": {1: (90,), 8: (600,)}, "mtp-3": {8: (900,)}},
        lengths={"dflash-16": 2.0}, failed={("dflash-16", 8): 5}, complete=False,
        workloads=("math500", "chat"),
    ),
}  # fmt: skip


class Text(HTMLParser):
    """What a reader gets: text by line, without style; and every tag that was opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and "style" not in self.open:
            self.lines.append(" ".join(data.split()))


def read(page: str) -> Text:
    parser = Text()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


def golden(name: str, text: str, request: pytest.FixtureRequest) -> None:
    path = GOLDEN / name
    if request.config.getoption("--update"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", REPORTS)
def test_markdown(name: str, request: pytest.FixtureRequest) -> None:
    golden(f"{name}.md", render_markdown(REPORTS[name], PUBLISHED), request)


@pytest.mark.parametrize("name", REPORTS)
def test_the_text_of_the_page(name: str, request: pytest.FixtureRequest) -> None:
    text = read(render_html(REPORTS[name], PUBLISHED))
    golden(f"{name}.html.txt", "\n".join(text.lines) + "\n", request)


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_survives_a_file(name: str) -> None:
    made = REPORTS[name]
    again = msgspec.json.decode(msgspec.json.encode(made), type=Report)
    assert again == made
    assert render_html(again, PUBLISHED) == render_html(made, PUBLISHED)


BAD = "<script>alert(1)</script> | [x](http://evil) `"


@pytest.mark.parametrize("made", [*REPORTS.values(), report(workloads=(BAD,))])
def test_markdown_is_read_as_tables(made: Report) -> None:
    tokens = MarkdownIt().enable("table").parse(render_markdown(made, PUBLISHED))
    drawn = [token for token in tokens if token.type == "table_open"]
    cells = [token for token in tokens if token.type in ("th_open", "td_open")]
    wanted = tables(made, PUBLISHED)
    assert len(drawn) == len(wanted)
    assert len(cells) == sum(len(table.header) * (1 + len(table.rows)) for table in wanted)
    ends = [tokens[i - 2].content for i, token in enumerate(tokens) if token.type == "tr_close"]
    assert ends == [row[-1] for table in wanted for row in (table.header, *table.rows)]


@pytest.mark.parametrize("name", REPORTS)
def test_the_page_asks_for_nothing_and_is_read_aloud(name: str) -> None:
    page = render_html(REPORTS[name], PUBLISHED)
    text = read(page)
    assert not re.search(r"https?://|url\(|@import|<script|<link|<img", page)
    ids = [value for _, key, value in text.attributes if key == "id"]
    assert len(ids) == len(set(ids))
    named = [
        value for _, key, value in text.attributes if key in ("aria-labelledby", "aria-describedby")
    ]
    assert named
    assert set(named) <= set(ids)
    pictures = re.findall(r"<svg [^>]*>", page)
    assert all('role="img"' in each or 'aria-hidden="true"' in each for each in pictures)
    for picture in re.findall(r"<svg .*?</svg>", page, re.DOTALL):
        ET.fromstring(picture)


def test_what_was_made_up_is_said_in_red_everywhere() -> None:
    made = report(synthetic=6.5)
    page = render_html(made)
    assert 'class="alarm"' in page
    assert page.count("(synthetic acceptance)") == 1 + len(figures(made, ())) + len(
        tables(made, ())
    )
    markdown = render_markdown(made)
    assert all("(synthetic acceptance)" in line for line in markdown.splitlines()
               if line.startswith("## ") and line not in ("## Measured with", "## Servers"))  # fmt: skip
    assert "(synthetic acceptance)" not in render_html(report())


def test_what_a_report_quotes_is_no_markup() -> None:
    made = report(failed={("dflash-16", 8): 5}, command=BAD, model=BAD, workloads=(BAD,))
    page = render_html(made)
    assert "<script" not in page
    assert "<script" not in render_markdown(made)


def test_a_name_that_the_template_does_not_know_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.html.j2").write_text("{{ report.model }} {{ nothing }}")
    monkeypatch.setattr(html, "templates_root", lambda: tmp_path)
    with pytest.raises(UndefinedError):
        render_html(report())


def test_an_arm_that_an_interrupted_benchmark_did_not_come_to_has_no_column() -> None:
    whole = report(GENTLE)
    made = msgspec.structs.replace(
        whole, complete=False,
        cells=tuple(cell for cell in whole.cells if cell.arm != "dflash-8"),
    )  # fmt: skip

    assert "Block Size = 8" in render_markdown(whole, [])
    for text in (render_markdown(made, []), render_html(made, [])):
        assert "Block Size = 16" in text
        assert "Block Size = 8" not in text


def test_an_empty_report_is_a_page_too() -> None:
    for empty in (report({}), report({"plain": {1: ()}}), report({"dflash-16": {1: (50,)}})):
        assert read(render_html(empty)).lines
        assert render_markdown(empty).startswith("# ")


@pytest.mark.parametrize("name", REPORTS)
def test_every_mark_is_inside_its_figure(name: str) -> None:
    for figure in figures(REPORTS[name], PUBLISHED):
        for mark in (mark for series in figure.series for mark in series.marks):
            assert LEFT <= mark.x <= RIGHT
            assert TOP <= mark.high <= mark.y <= mark.low <= BOTTOM


def test_requests_that_arrive_have_times_and_no_speedup() -> None:
    made = report()
    rated = [
        msgspec.structs.replace(cell, load=msgspec.convert({"rate": cell.load.concurrency / 2}, type(cell.load)))
        for cell in made.cells
    ]  # fmt: skip
    found = figures(msgspec.structs.replace(made, cells=tuple(rated)), PUBLISHED)
    assert not any(figure.title.startswith("Speedup") for figure in found)
    (ends,) = [figure for figure in found if figure.title.startswith("End to End")]
    assert ends.x_title == "requests a second"
    assert [tick.label for tick in ends.x_ticks] == ["0.5", "4", "16", "32"]
    both = msgspec.structs.replace(made, cells=(*made.cells, *rated))
    (ends,) = [figure for figure in figures(both, ()) if figure.title.startswith("End to End")]
    assert ends.x_title == "requests in flight, and requests a second (/s)"
    assert [tick.label for tick in ends.x_ticks][:5] == ["1", "8", "32", "64", "0.5/s"]


def test_a_table_of_nothing_is_left_out() -> None:
    begun = report({"plain": {1: (100,)}}, complete=False)
    assert [table.title for table in tables(begun, PUBLISHED)] == ["Measured: mixed"]


def test_a_server_that_ran_already_has_a_draft_that_nobody_named() -> None:
    assert dict(facts(report(draft=None)))["Draft"] == "not known"
    assert dict(facts(report({"plain": {1: (100,)}}, draft=None)))["Draft"] == "none"


def test_the_published_curve_of_the_registry_stands_beside() -> None:
    entry = load(user=False).find("qwen3-8b")
    known = published_for(entry, None)
    assert known == published_for(entry, "z-lab/Qwen3-8B-DFlash-b16")
    figure = figures(report(GENTLE), known)[0]
    (theirs,) = [series for series in figure.series if series.published]
    assert theirs.label == "published: math500, sglang B200, block 16"
    assert len(theirs.marks) == 2
    assert published_for(entry, "deepseek-ai/dflash_qwen3_8b_block7") == []


def test_a_schedule_is_spelled_out() -> None:
    plain, block, *rest = report().arms
    arms = (plain, msgspec.structs.replace(block, schedule=((1, 8, 15), (9, 64, 7))), *rest)
    told = dict(facts(msgspec.structs.replace(report(), arms=arms)))
    assert told["Schedule"].endswith("15 up to 8 requests, 7 up to 64")
    assert "Schedule" not in dict(facts(report()))


def test_a_load_that_one_arm_failed_at_keeps_its_place_on_the_axis() -> None:
    speedup, *_ = figures(report(failed={("dflash-16", 1): 40}), [])
    assert [tick.label for tick in speedup.x_ticks] == ["1", "8", "32", "64"]


def test_a_published_load_that_was_not_measured_has_its_place_on_the_axis() -> None:
    light = report({arm: {1: by_load[1]} for arm, by_load in GENTLE.items()})
    speedup, *_ = figures(light, PUBLISHED)
    assert [tick.label for tick in speedup.x_ticks] == ["1", "32"]


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.9996, "1000"), (0.99949, "999"), (1.2346, "1235"), (0.02, "20")]
)
def test_no_time_is_told_as_a_power_of_ten(seconds: float, said: str) -> None:
    assert milliseconds(seconds) == said
