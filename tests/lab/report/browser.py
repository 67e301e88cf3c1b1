"""What the tests of the page do in the browser, beyond what Playwright's own Page does."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_chromium() -> str | None:
    """Return the path of the system's browser, or None where there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, PROGRAMS)), None)


def errors(page: Page) -> list[str]:
    """Uncaught exceptions, and errors and warnings of the console, since the page was opened."""
    written = [m.text for m in page.console_messages() if m.type in ("error", "warning")]
    return [str(error) for error in page.page_errors()] + written


def settle(page: Page) -> None:
    """Wait until the page has drawn what was asked of it, resizing included."""
    page.evaluate("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def tab_to(page: Page, selector: str, *, most: int = 200) -> None:
    """Press Tab until the focus is on an element that matches."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} cannot be reached by {most} presses of Tab")


def hover(page: Page, selector: str, *, dy: float = 0) -> None:
    """Move the pointer to an element, dy pixels below its middle."""
    element = page.locator(selector).first
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + dy)


def count(page: Page, selector: str) -> int:
    """Return the number of elements that match."""
    return page.locator(selector).count()


def texts(page: Page, selector: str) -> list[str]:
    """Return the texts of the elements that match."""
    return page.locator(selector).all_text_contents()
