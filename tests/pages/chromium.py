"""A headless Chromium, spoken to over its DevTools protocol: one tab, told what to do."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from websockets.sync.client import ClientConnection, connect

DEADLINE_S: Final = 60.0

QUIET: Final = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *("--remote-debugging-port=0", "--remote-allow-origins=*"),
)
"""A browser that goes where it is told and talks to nobody else."""

KEYS: Final = {"Tab": 9, "Enter": 13}


class Tab:
    """One tab; remembers what the page complained of."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.complaints: list[str] = []
        """What the browser refused or could not do: violated policies, failed loads, errors."""
        for domain in ("Page", "Runtime", "Log", "Accessibility", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> Any:
        """Do something, and return what came of it."""
        self._number += 1
        call = {"id": self._number, "method": method, "params": parameters}
        self._socket.send(json.dumps(call))
        while (message := self._next()).get("id") != self._number:
            pass
        assert "error" not in message, f"{method}: {message}"
        return message["result"]

    def open(self, url: str) -> None:
        """Go to a page."""
        self._leaving(lambda: self.send("Page.navigate", url=url))

    def press(self, key: str, *, leaving: bool = False) -> None:
        """Press a key; ``leaving`` where it leads to another page."""

        def pressed() -> None:
            code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key]}
            text = {"text": "\r"} if key == "Enter" else {}
            self.send("Input.dispatchKeyEvent", type="keyDown", **code, **text)
            self.send("Input.dispatchKeyEvent", type="keyUp", **code)

        if leaving:
            self._leaving(pressed)
        else:
            pressed()

    def type(self, text: str) -> None:
        """Type into what has the focus."""
        self.send("Input.insertText", text=text)

    def ask(self, expression: str) -> Any:
        """Return what a JavaScript expression says of the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def look(self, *, width: int, dark: bool = False, height: int = 900) -> None:
        """See pages as wide as this, in light or dark."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Keep a picture of the whole page."""
        shot = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def roles(self) -> list[tuple[str, str]]:
        """Return role and name of everything a screen reader is told of, in order."""
        nodes = self.send("Accessibility.getFullAXTree")["nodes"]
        return [
            (node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes
            if not node["ignored"]
        ]

    def _leaving(self, act: Any) -> None:
        """Act, and wait until the page that it leads to is whole."""
        self._loaded = False
        act()
        deadline = time.monotonic() + DEADLINE_S
        while not self._loaded:
            assert time.monotonic() < deadline, "the page was never whole"
            self._next()

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv(timeout=DEADLINE_S))
        method, said = message.get("method"), message.get("params", {})
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Log.entryAdded":
            self.complaints.append(said["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(said["exceptionDetails"]["text"])
        elif method == "Network.loadingFailed":
            self.complaints.append(said["errorText"])
        return message


@contextmanager
def browsing(program: str, profile: Path) -> Iterator[Tab]:
    """Run a browser for the time of the block."""
    command = [program, *QUIET, f"--user-data-dir={profile}", "about:blank"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                if line.startswith("DevTools listening on "):
                    break
            else:
                raise AssertionError("the browser ended")
            # What it goes on saying must not fill the pipe.
            threading.Thread(target=process.stderr.read, daemon=True).start()
            browser = line.split()[-1]
            with connect(browser, max_size=None) as control:
                control.send(json.dumps({"id": 1, "method": "Target.getTargets"}))
                found = json.loads(control.recv(timeout=DEADLINE_S))
            (target,) = (
                each["targetId"]
                for each in found["result"]["targetInfos"]
                if each["type"] == "page"
            )
            url = f"{browser.partition('/devtools/')[0]}/devtools/page/{target}"
            with connect(url, max_size=None) as socket:
                yield Tab(socket)
        finally:
            process.terminate()
