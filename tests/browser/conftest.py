"""A real Chromium: the distribution's, driven by Playwright."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, async_playwright

from deploy.local.requirements import find_chromium


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    found = find_chromium(os.environ)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        await chromium.close()
