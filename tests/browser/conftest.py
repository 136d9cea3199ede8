"""A real Chromium: the distribution's, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    assert found is not None, "no Chromium: on Debian `apt-get install chromium`"
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        await chromium.close()
