"""Headless Chromium, driven with real clicks and keys."""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import pytest

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
if not CHROMIUM or not DRIVER or not find_spec("selenium"):  # one line for all tests of a module
    reason = "needs selenium, chromium and chromium-driver (apt-get install chromium chromium-driver)"
    pytest.skip(reason, allow_module_level=True)


@contextmanager
def browser(width: int = 1280, height: int = 1000, dark: bool = False) -> Iterator[Any]:
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    quiet = ("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", *quiet):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    try:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        yield driver
    finally:
        driver.quit()


def console_messages(driver: Any) -> list[str]:
    return [entry["message"] for entry in driver.get_log("browser")]


def requests(driver: Any) -> list[str]:
    """URLs of all requests of the page."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]


def wait_until(condition: Callable[[], Any], seconds: float = 10) -> None:
    """Charts are drawn after a click, not within it."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the page did not change as expected"
        time.sleep(0.05)
