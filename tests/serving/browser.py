"""`Browser`: headless Chromium, driven over the Chrome DevTools Protocol without a package for it.

https://chromedevtools.github.io/devtools-protocol/
"""

import base64
import json
import pathlib
import shutil
import socket
import subprocess
import sys
import time

CHROMIUM = shutil.which("chromium")
# Chromium reads commands from file 3 and writes answers to file 4; a socket does both
_LAUNCH = (
    "import os, sys; end = int(sys.argv[1]); os.dup2(end, 3); os.dup2(end, 4); os.execv(sys.argv[2], sys.argv[2:])"
)
_OPTIONS = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
_OPTIONS += " --disable-component-update --disable-sync --remote-debugging-pipe"
_SECONDS = 60.0  # for an answer of the browser or a change of the page


class Browser:
    """A browser with one tab. Use it as a context manager.

    Args:
        folder: for its profile.

    Attributes:
        requests: URLs of all requests.
        problems: errors and warnings of the console, and exceptions.
    """

    def __init__(self, folder: pathlib.Path):
        self._socket, end = socket.socketpair()
        self._socket.settimeout(_SECONDS)
        command = [CHROMIUM, *_OPTIONS.split(), f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, str(end.fileno()), *command],
            pass_fds=[end.fileno()],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        end.close()
        self._unread, self._number, self._session = b"", 0, None
        self.requests: list[str] = []
        self.problems: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        self._session = None
        self.call("Browser.close")
        self._socket.close()
        self._process.wait(_SECONDS)

    def call(self, method: str, **parameters: object) -> dict:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._socket.sendall(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self._record(answer)

    def run(self, script: str) -> object:
        """Return the value of a JavaScript expression, or of its promise."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def wait_until(self, script: str) -> object:
        """Wait until a JavaScript expression is true, and return its value."""
        end = time.monotonic() + _SECONDS
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"never true: {script}\n{self.run('document.body.innerText')}"
            time.sleep(0.02)
        return value

    def open(self, url: str, *, width: int = 1280, height: int = 900, theme: str = "light") -> None:
        """Open a page in a window of some width and wait until its script has run."""
        scale = 2 if width < 600 else 1
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )
        feature = {"name": "prefers-color-scheme", "value": theme}
        self.call("Emulation.setEmulatedMedia", features=[feature])
        self.call("Page.navigate", url="about:blank")  # otherwise a URL that differs in its fragment loads nothing
        self.call("Page.navigate", url=url)
        self.wait_until("document.readyState === 'complete' && location.protocol.startsWith('http')")

    def fill(self, selector: str, text: str) -> None:
        """Replace the text of an input as a user does."""
        self.run(f"document.querySelector({json.dumps(selector)}).select()")
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.press("Delete")

    def press(self, key: str) -> None:
        """Press and release a key, such as Tab or Enter."""
        code = {"Tab": 9, "Enter": 13, " ": 32, "Delete": 46}[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, text=text)

    def save_picture(self, path: pathlib.Path) -> None:
        """Save a picture of the whole page as PNG."""
        picture = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def _read(self) -> dict:
        while b"\0" not in self._unread:
            chunk = self._socket.recv(1 << 20)
            assert chunk, "the browser has ended"
            self._unread += chunk
        message, _, self._unread = self._unread.partition(b"\0")
        return json.loads(message)

    def _record(self, event: dict) -> None:
        method, parameters = event.get("method"), event.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            entry = parameters["entry"]
            self.problems.append(f"{entry['text']} {entry.get('url', '')}")
