"""A headless Chromium, driven over a pipe by its DevTools protocol: the standard library is all it needs."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from select import select

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--disable-default-apps", "--disable-dev-shm-usage", "--no-first-run",
    "--no-default-browser-check", "--remote-debugging-pipe", "--hide-scrollbars",
)  # fmt: skip
# The protocol wants its pipe on descriptors 3 and 4; moved up first, so that neither overwrites the other.
JOIN = """
import fcntl, os, sys
up = [fcntl.fcntl(int(d), fcntl.F_DUPFD, 100) for d in sys.argv[1:3]]
os.dup2(up[0], 3), os.dup2(up[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
TIMEOUT = 60.0  # seconds; a loaded machine starts the browser slowly


def find():
    """Path of an installed Chromium, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One browser process; `open` gives pages."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="treeinner-chromium-")
        to_read, self.to_browser = os.pipe()
        self.from_browser, to_write = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-c", JOIN, str(to_read), str(to_write), program, *FLAGS,
             f"--user-data-dir={self.profile}", "about:blank"],
            pass_fds=(to_read, to_write), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self.number, self.rest, self.events = 0, b"", deque()

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (OSError, EOFError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, session=None, **params):
        """Send a command and return its answer; events that come meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self.to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self._receive(deadline)
            if answer.get("id") != self.number:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def _receive(self, deadline):
        while b"\0" not in self.rest:
            if not select([self.from_browser], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            part = os.read(self.from_browser, 1 << 16)
            if not part:
                raise EOFError("Chromium ended")
            self.rest += part
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, url, *, width=1280, height=900, dark=False, reduced_motion=False):
        """Load a page in a tab of its own."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session, target)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else "no-preference"},
        ]
        page.call("Emulation.setEmulatedMedia", features=features)
        page.call("Page.navigate", url=url)
        page.wait("document.readyState === 'complete'")
        return page


class Page:
    """One tab."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def evaluate(self, expression):
        """Value of a JavaScript expression; an exception there is one here."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, condition):
        deadline = time.monotonic() + TIMEOUT
        while not self.evaluate(condition):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{condition} did not come true")
            time.sleep(0.02)

    def press(self, key, text="", modifiers=0):
        code = {"Enter": 13, "Tab": 9, "ArrowDown": 40, "ArrowUp": 38, " ": 32}.get(key, 0)
        text = text or {"Enter": "\r", " ": " "}.get(key, "")
        known = {"key": key, "windowsVirtualKeyCode": code, "modifiers": modifiers}
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **known)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def choose(self, name, value):
        """Give a field a value, as a user's choice does."""
        field = f"document.getElementById({json.dumps(name)})"
        self.evaluate(f"{field}.value = {json.dumps(value)}; {field}.dispatchEvent(new Event('change'))")

    def type(self, text):
        self.call("Input.insertText", text=text)

    def events(self, *methods):
        """Events of this tab so far."""
        self.evaluate("0")  # whatever was on its way has come before this answer
        return [e for e in self.browser.events if e.get("sessionId") == self.session and e.get("method") in methods]

    def complaints(self):
        """What the console says: errors, warnings, exceptions, violations of the policy."""
        found = [e["params"]["entry"]["text"] for e in self.events("Log.entryAdded")]
        found += [e["params"]["exceptionDetails"]["text"] for e in self.events("Runtime.exceptionThrown")]
        return found + [str(e["params"]["args"]) for e in self.events("Runtime.consoleAPICalled")]

    def requests(self):
        """Addresses that were asked for; the empty icon written in the page is not a request to anybody."""
        urls = [e["params"]["request"]["url"] for e in self.events("Network.requestWillBeSent")]
        return [url for url in urls if not url.startswith("data:")]

    def screenshot(self, path):
        """PNG of the whole page."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
