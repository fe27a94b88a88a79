"""What a user does and sees, in the page's own words."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect


def visit(page: Page, url: str) -> None:
    page.goto(f"{url}/")
    expect(page.locator("#model")).to_have_text("org/model, context of 4096 tokens")


def ask(page: Page, text: str) -> None:
    page.get_by_label("Question").fill(text)
    page.keyboard.press("Enter")


def answer(page: Page, title: str = "DFlash") -> Locator:
    """The last answer, under this heading."""
    return page.get_by_role("region", name=f"Answer, {title}").last


def ended(page: Page, title: str = "DFlash") -> Locator:
    found = answer(page, title)
    expect(found).not_to_have_attribute("aria-busy", "true")
    return found


def pieces(found: Locator) -> list[tuple[str, str]]:
    """The words as they are coloured: `draft` or nothing, and the text."""
    spans = found.locator(".text > span").all()
    return [(span.get_attribute("class") or "", span.text_content() or "") for span in spans]


def numbers(found: Locator) -> dict[str, str]:
    labels, values = found.locator("dt"), found.locator("dd")
    return dict(zip(labels.all_text_contents(), values.all_text_contents(), strict=True))
