"""A headless Chromium, driven through the DevTools protocol over a pipe.

Keys, clicks and media settings are the browser's own, not made up by scripts, so a test does what
a person does. No package is needed, only the program ``chromium`` (or ``google-chrome``).
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# Key names to the virtual key codes that the browser wants to see with them.
_KEY_CODES = {
    "Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "End": 35, "Home": 36,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


def find_chromium() -> str | None:
    """Return the path of the browser, or None where there is none."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    """One tab of a headless browser.

    Attributes
    ----------
    errors : list of str
        Uncaught exceptions, errors and warnings of the console since the page was opened.
    requests : list of str
        Every address that the page asked for.
    """

    def __init__(self, program: str, *, timeout: float = 20.0) -> None:
        self._timeout = timeout
        self._id = 0
        self._buffer = b""
        self._session: str | None = None
        self._loaded = False
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._profile = tempfile.mkdtemp(prefix="robirank-browser-")
        self._process, self._write, self._read = _start(program, self._profile)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the browser and remove its profile."""
        with contextlib.suppress(OSError, TimeoutError, EOFError, RuntimeError):
            self._session = None
            self.send("Browser.close")
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)  # the group that this browser began
            self._process.wait(5)
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._profile, ignore_errors=True)

    # The page

    def open(self, file: Path) -> None:
        """Open a file from disk and wait until it is loaded."""
        self.errors.clear()
        self.requests.clear()
        self._loaded = False
        failure = self.send("Page.navigate", url=file.resolve().as_uri()).get("errorText")
        if failure:
            raise RuntimeError(f"{file}: {failure}")
        self._wait(lambda: self._loaded, f"{file} did not load")
        self.settle()

    def settle(self) -> None:
        """Wait until what was asked of the page is drawn."""
        self.js("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def js(self, expression: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        result = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {_message(result['exceptionDetails'])}")
        return result["result"].get("value")

    def text(self, selector: str) -> str:
        """Return the text of the first element that matches."""
        return str(self.js(f"document.querySelector({json.dumps(selector)}).textContent"))

    def text_attribute(self, selector: str, name: str) -> str:
        """Return an attribute of the first element that matches."""
        element = f"document.querySelector({json.dumps(selector)})"
        return str(self.js(f"{element}.getAttribute({json.dumps(name)})"))

    # What a person does

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key and let go of it."""
        text = {"Enter": "\r", " ": " "}.get(key, "")
        event = {
            "key": key,
            "code": "Space" if key == " " else key,
            "windowsVirtualKeyCode": _KEY_CODES[key],
            "modifiers": 8 if shift else 0,
        }
        self.send(
            "Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **event
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", **event)
        if key != "Tab":  # the focus moves at once
            self.settle()

    def tab_to(self, selector: str, *, most: int = 200) -> None:
        """Press Tab until the focus is on an element that matches."""
        wanted = f"document.activeElement.matches({json.dumps(selector)})"
        for _ in range(most):
            self.press("Tab")
            if self.js(wanted):
                return
        raise AssertionError(f"{selector} cannot be reached by {most} presses of Tab")

    def click(self, selector: str) -> None:
        """Scroll to the first element that matches and click in the middle of it."""
        x, y = self._middle(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def hover(self, selector: str, *, dx: float = 0, dy: float = 0) -> None:
        """Move the pointer to an element, dx and dy pixels from its middle."""
        x, y = self._middle(selector)
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x + dx, y=y + dy)
        self.settle()

    def choose(self, selector: str, value: str) -> None:
        """Choose an option of a select element."""
        self.js(
            f"(() => {{ const s = document.querySelector({json.dumps(selector)});"
            f" s.value = {json.dumps(value)};"
            " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        self.settle()

    def resize(self, width: int, height: int, *, mobile: bool = False) -> None:
        """Give the window another size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=2 if mobile else 1, mobile=mobile,
        )  # fmt: skip
        self.settle()

    def media(self, **features: str) -> None:
        """Set media features such as ``prefers_color_scheme="dark"``, or ``media="print"``."""
        media = features.pop("media", "")
        named = [{"name": n.replace("_", "-"), "value": v} for n, v in features.items()]
        self.send("Emulation.setEmulatedMedia", media=media, features=named)
        self.settle()

    def screenshot(self, file: Path, *, full: bool = True) -> None:
        """Write a picture of the whole page, or of the window."""
        options: dict[str, Any] = {"captureBeyondViewport": full}
        if full:
            size = self.send("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {
                "x": 0,
                "y": 0,
                "scale": 1,
                **{k: size[k] for k in ("width", "height")},
            }
        file.write_bytes(base64.b64decode(self.send("Page.captureScreenshot", **options)["data"]))

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.send("Page.printToPDF", printBackground=True)["data"])

    # The protocol: JSON messages that end with a zero byte

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._id += 1
        message = {"id": self._id, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer: dict[str, Any] = {}
        wanted = self._id

        def answered() -> bool:
            return bool(answer)

        self._wait(answered, f"no answer to {method}", lambda m: m.get("id") == wanted, answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _wait(self, done: Any, what: str, match: Any = None, answer: Any = None) -> None:
        until = time.monotonic() + self._timeout
        while not done():
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise TimeoutError(f"{what} within {self._timeout:g} s")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise EOFError("the browser has ended")
            *whole, self._buffer = (self._buffer + chunk).split(b"\0")
            for message in map(json.loads, whole):
                if match is not None and match(message):
                    answer.update(message)
                elif "method" in message:
                    self._notice(message["method"], message["params"])

    def _notice(self, method: str, params: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.errors.append(_message(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.errors.append(str([a.get("value") for a in params["args"]]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def _middle(self, selector: str) -> tuple[float, float]:
        box = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center', behavior: 'instant'});"
            " const b = e.getBoundingClientRect();"
            " return [b.left + b.width / 2, b.top + b.height / 2]; })()"
        )
        return box[0], box[1]


def _start(program: str, profile: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """Start the browser, which reads commands from descriptor 3 and answers on 4."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()

    def connect() -> None:
        # Copies first, high up: either pipe may itself be number 3 or 4.
        ours = [os.dup2(fd, 60 + i) for i, fd in enumerate((command_read, answer_write))]
        for number, fd in zip((3, 4), ours, strict=True):
            os.dup2(fd, number)

    process = subprocess.Popen(
        [program, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=connect,
        start_new_session=True,
    )
    os.close(command_read)
    os.close(answer_write)
    return process, command_write, answer_read


def _message(details: dict[str, Any]) -> str:
    exception = details.get("exception", {})
    return str(exception.get("description") or details.get("text"))
