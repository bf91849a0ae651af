"""A Firefox without a window, driven by Marionette, its own protocol; no further package is needed.

The distribution's package `firefox-esr` is used. Without it, tests are skipped outside CI, and fail in CI.
"""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from browser import WAIT, Page, needs

PROGRAM = shutil.which("firefox-esr") or shutil.which("firefox")
_SETTINGS = {
    "marionette.port": 0,  # any free one
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
}


def needs_firefox() -> None:
    """Skip a test without Firefox, or fail in CI."""
    needs("firefox-esr", PROGRAM)


class Firefox(Page):
    """One tab of Firefox."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="firefox-", ignore_cleanup_errors=True)
        profile = Path(self._folder.name)
        settings = (f"user_pref({json.dumps(name)}, {json.dumps(value)});\n" for name, value in _SETTINGS.items())
        (profile / "user.js").write_text("".join(settings), "utf-8")
        command = [PROGRAM, "--headless", "--marionette", "--no-remote", "--profile", str(profile)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port, end = profile / "MarionetteActivePort", time.monotonic() + 4 * WAIT
        while not (port.is_file() and port.read_text().strip()):
            assert time.monotonic() < end, "Firefox does not start"
            time.sleep(0.1)
        self._socket = socket.create_connection(("127.0.0.1", int(port.read_text())), 4 * WAIT)
        self._stream, self._number = self._socket.makefile("rb"), 0
        self._read()  # its greeting
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {"pageLoadStrategy": "normal"}})

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(WAIT)
        self._folder.cleanup()

    def call(self, command: str, **parameters: Any) -> Any:
        """Call a command of the protocol and return its result."""
        self._number += 1
        message = json.dumps([0, self._number, command, parameters]).encode()
        self._socket.sendall(b"%d:%b" % (len(message), message))
        _, number, error, result = self._read()
        assert number == self._number
        if error is not None:
            raise AssertionError(f"{command}: {error['message']}")
        return result

    def _read(self) -> Any:
        """Read a message: its length, a colon, and JSON."""
        length = b""
        while (letter := self._stream.read(1)) != b":":
            if not letter:
                raise AssertionError("the browser has gone")
            length += letter
        return json.loads(self._stream.read(int(length)))

    def run(self, script: str) -> Any:
        return self.call("WebDriver:ExecuteScript", script=f"return ({script});", args=[])["value"]

    def navigate(self, address: str) -> None:
        self.call("WebDriver:Navigate", url=address)

    def look(self, *, width: int = 1200, height: int = 900) -> None:
        """Set the size of the window."""
        self.call("WebDriver:SetWindowRect", width=width, height=height)
