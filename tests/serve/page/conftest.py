"""Servers with the page, and a browser to look at it."""

import threading
from pathlib import Path

import pytest
import uvicorn

import robirank as rr
from lab.report.browser import FLAGS, find_chromium
from robirank.serve import Client, app
from serve.shop import NAMES, fitted, plays, table

AXE = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"


def address_of(application):
    """Serve an application in a thread; its address, and a function that ends it."""
    config = uvicorn.Config(application, port=0, log_config=None, lifespan="on")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]

    def end():
        server.should_exit = True
        thread.join(20)

    return f"http://127.0.0.1:{port}/", end


@pytest.fixture(scope="module")
def shop_page():
    """A model with names, a table of items and another model beside it."""
    options = {"items": table(), "names": NAMES, "compare": fitted(seed=1), "reload_seconds": 0}
    address, end = address_of(app(fitted(), train=plays(), log_requests=False, **options))
    yield address
    end()


@pytest.fixture(scope="module")
def ranker_page():
    data = rr.make_ranking(n_queries=20, n_features=4, random_state=0)
    address, end = address_of(app(rr.RoBiRank().fit(data), log_requests=False))
    yield address
    end()


@pytest.fixture(scope="module")
def client():
    options = {"items": table(), "names": NAMES, "compare": fitted(seed=1), "reload_seconds": 0}
    with Client(app(fitted(), train=plays(), log_requests=False, **options)) as client:
        yield client


@pytest.fixture(scope="module")  # Playwright occupies the thread's event loop while it runs
def browser():
    """The system's Chromium; tests that need it are skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = find_chromium()
    if program is None:
        pytest.skip("no chromium or google-chrome on this machine (set CHROMIUM to its path)")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def look(browser):
    """Open an address in a window of a given size, as if for the first time."""
    contexts = []

    def open_it(address, width=1280, scheme="light", ready="main > *"):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            reduced_motion="reduce",
            is_mobile=width < 600,
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(10_000)
        page.goto(address)
        page.wait_for_selector(ready)
        return page

    yield open_it
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed (npm install --prefix tests)")
    return AXE.read_text("utf-8")
