"""A Chromium without a window, driven over a pipe by its own protocol; no further package is needed.

The distribution's package `chromium` is used. Without it, tests are skipped outside CI, and fail in CI.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import pytest

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_OPTIONS = """--headless=new --remote-debugging-pipe --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run
--disable-background-networking --disable-component-update --disable-sync --disable-ipc-flooding-protection
--hide-scrollbars --force-color-profile=srgb"""
WAIT = 30  # seconds


def needs_browser() -> None:
    """Skip a test without Chromium, or fail in CI."""
    if PROGRAM is None and os.environ.get("CI"):
        pytest.fail("CI needs chromium; install the package of the distribution")
    if PROGRAM is None:
        pytest.skip("needs chromium")


class NavigatedError(AssertionError):
    """The page went elsewhere before it answered."""


class Browser:
    """One tab of a browser; `requests` collects the addresses that it asks for, `messages` what pages complain of."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [PROGRAM, *_OPTIONS.split(), f"--user-data-dir={self._folder.name}", "about:blank"]
        redirect = f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}'
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        shell = ["bash", "-c", redirect, "bash", *command]
        self._process = subprocess.Popen(shell, pass_fds=(theirs_in, theirs_out), **quiet)
        os.close(theirs_in)
        os.close(theirs_out)
        self._out, self._in = os.fdopen(ours_out, "wb"), os.fdopen(ours_in, "rb")
        self._number, self._session, self._rest = 0, None, b""
        self.requests: list[str] = []
        self.messages: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(WAIT)
        self._out.close()
        self._in.close()
        self._folder.cleanup()

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        self._out.flush()
        while True:
            answer = self._next()
            if answer.get("id") == number:
                if "error" in answer:
                    raised = NavigatedError if "navigated" in answer["error"].get("message", "") else AssertionError
                    raise raised(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        """Read the next message, and note requests and complaints."""
        parts = [self._rest]
        while b"\0" not in parts[-1]:
            got = os.read(self._in.fileno(), 1 << 20)
            if not got:
                raise AssertionError("the browser has gone")
            parts.append(got)
        message, _, self._rest = b"".join(parts).partition(b"\0")
        answer = json.loads(message)
        given = answer.get("params", {})
        if answer.get("method") == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif answer.get("method") == "Runtime.exceptionThrown":
            self.messages.append(json.dumps(given["exceptionDetails"])[:1000])
        elif answer.get("method") == "Log.entryAdded":
            self.messages.append(given["entry"]["text"])
        return answer

    def run(self, script: str) -> Any:
        """Return the value of an expression of JavaScript, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(json.dumps(answer["exceptionDetails"])[:2000])
        return answer["result"].get("value")

    def navigate(self, address: str) -> None:
        self.call("Page.navigate", url=address)

    def until(self, condition: str, seconds: float = WAIT) -> Any:
        """Return the value of an expression as soon as it is true."""
        end = time.monotonic() + seconds
        while True:
            with suppress(NavigatedError):
                if value := self.run(condition):
                    return value
            if time.monotonic() > end:
                raise AssertionError(f"never true: {condition}; {self.messages}")
            time.sleep(0.02)

    def open(self, file: Path, address: str = "") -> None:
        """Open a page of a file, and wait until it is drawn."""
        self.navigate("about:blank")
        self.navigate(file.resolve().as_uri() + address)
        self.until("document.querySelector('#main[data-ready]') !== null")

    def go(self, address: str) -> None:
        """Go to an address of the page, and wait until its view is drawn."""
        before = self.until("document.querySelector('#main')?.dataset.ready")  # after a reload, there is none at first
        if self.run("location.hash") == address:
            return
        self.run(f"location.hash = {json.dumps(address)}")
        self.until(f"document.querySelector('#main').dataset.ready !== {json.dumps(before)}")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def text(self, selector: str = "main") -> str:
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def press(self, key: str) -> None:
        codes = {"ArrowDown": 40, "ArrowUp": 38, "ArrowRight": 39, "Enter": 13, "Escape": 27, "Tab": 9, "/": 191}
        text = {"text": {"Enter": "\r"}.get(key, key)} if len(key) == 1 or key == "Enter" else {}
        code = codes.get(key, ord(key.upper()[0]))
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    def press_at(self, selector: str, key: str) -> None:
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self.press(key)
        self.run("new Promise(done => setTimeout(done, 30))")

    def look(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
