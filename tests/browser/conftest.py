"""A real Chromium: the distribution's, driven by Playwright, started once for all tests.

Playwright stays on the event loop that it was started on, so all tests here share one. What a page keeps
belongs to its context, and each page that is opened has one of its own.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Browser, async_playwright

from deploy.local.requirements import find_chromium


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests that need the browser run on its loop."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    found = find_chromium(os.environ)
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield chromium
        await chromium.close()
