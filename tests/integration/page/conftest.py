"""The embedded server's page in a real browser, against a decoder that says what it is told."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

QUIET = ["--disable-gpu", "--disable-quic", "--disable-background-networking"]


# A module at most: while the driver lives, its event loop is in the way of other tests' own.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.fail("the page is tested in a browser, and there is none: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@pytest.fixture
def window(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser without a past; what its page complains of fails the test."""
    context = chromium.new_context(viewport={"width": 1000, "height": 700})
    context.set_default_timeout(20_000)
    troubles: list[str] = []
    context.on("weberror", lambda error: troubles.append(str(error.error)))
    context.on("console", lambda said: troubles.append(said.text))
    yield context
    context.close()
    # refused requests are what some tests are about, and the browser notes each of them
    assert [line for line in troubles if not line.startswith("Failed to load resource")] == []


@pytest.fixture
def page(window: BrowserContext) -> Page:
    return window.new_page()
