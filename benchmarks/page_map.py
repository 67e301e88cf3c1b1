"""How long a frame of the page's map takes in Chromium, with 100,000 items.

A server of random factors, and a browser without a graphics card (``--disable-gpu``) that drags and
zooms the map. Each frame writes the pixels of every point; what is measured is the work of a frame,
and the time between frames. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from statistics import median

import numpy as np
import uvicorn
from playwright.sync_api import sync_playwright

import robirank as rr
from robirank.serve import app

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lab.report.browser import FLAGS, find_chromium

#: Drags and zooms the map, a step a frame, and tells the milliseconds between frames.
_MOVE = """(frames) => new Promise(done => {
  const canvas = document.querySelector('.points');
  const box = canvas.getBoundingClientRect();
  const [x, y] = [box.left + box.width / 2, box.top + box.height / 2];
  const steps = [];
  let last = performance.now();
  const step = (now) => {
    steps.push(now - last);
    last = now;
    if (steps.length > frames) return done(steps.slice(1));
    const deltaY = steps.length % 60 < 30 ? -40 : 40;
    canvas.dispatchEvent(new WheelEvent('wheel', {deltaY, clientX: x, clientY: y, bubbles: true}));
    window.frames_of_map.push(Number(document.querySelector('.stage').dataset.frame));
    requestAnimationFrame(step);
  };
  window.frames_of_map = [];
  requestAnimationFrame(step);
})"""


def make_model(n_items: int) -> rr.LatentRoBiRank:
    """A model whose items lie in a few clouds, with popularity as in a shop."""
    rng = np.random.default_rng(0)
    counts = rng.zipf(1.6, n_items).clip(max=5_000)
    items = np.arange(n_items, dtype=np.int32)
    users = rng.integers(0, 50, n_items)
    plays = rr.Interactions.from_arrays(users, items)
    model = rr.LatentRoBiRank(16, iterations=1, regularization=0.3, random_state=0, solver="sgd")
    model.fit(plays, show_progress=False)
    clouds = rng.normal(size=(12, 16))[rng.integers(0, 12, n_items)]
    model.factors_.items.rows[:] = clouds + 0.6 * rng.normal(size=(n_items, 16))
    model.factors_.items.counts[:] = counts
    return model


def main() -> None:
    """Serve, look, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=120)
    arguments = parser.parse_args()
    figures: dict[str, float] = {"items": arguments.items}
    program = find_chromium()
    if program is None:
        print("no chromium or google-chrome on this machine (set CHROMIUM to its path)")
        print(json.dumps(figures))
        return
    config = uvicorn.Config(
        app(make_model(arguments.items), log_requests=False), port=0, log_config=None
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        pass
    port = server.servers[0].sockets[0].getsockname()[1]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/#/map")
        page.wait_for_selector(".inview li")
        between = page.evaluate(_MOVE, arguments.frames)
        drawn = page.evaluate("window.frames_of_map")
        browser.close()
    server.should_exit = True
    thread.join()
    for name, values in (("frame_ms", drawn), ("between_frames_ms", between)):
        figures[f"{name}_median"] = round(median(values), 2)
        figures[f"{name}_p95"] = round(float(np.percentile(values, 95)), 2)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
