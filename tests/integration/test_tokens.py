"""The real pulsar-admin with tokens, against an admin API with access control."""

from __future__ import annotations

import asyncio
import os
import subprocess
from pathlib import Path

import pytest

from coordinator.app.http import serving
from deploy.local import commands, configuration, jars
from deploy.local.commands import JavaRuntime
from deploy.local.requirements import find_java
from tests.admin_api.keys import access, token
from tests.admin_api.world import World
from tests.app.http.test_serving import app_of, config

pytestmark = [pytest.mark.cluster, pytest.mark.own_cluster, pytest.mark.verify]


async def create(directory: Path, api: str, role: str | None) -> subprocess.CompletedProcess[str]:
    """``resourcegroups create orders`` with the token of a role, or without one."""
    logging, conf = directory / "log4j2.xml", directory / "client.conf"
    logging.write_text(configuration.logging("warn"))
    lines = [f"webServiceUrl=http://{api}/", "brokerServiceUrl=pulsar://127.0.0.1:1/"]
    if role is not None:
        plugin = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
        lines += [f"authPlugin={plugin}", f"authParams=token:{token(role)}"]
    conf.write_text("\n".join(lines))
    tools = jars.tool_jars(jars.cache_root(os.environ))
    runtime = JavaRuntime(find_java(os.environ), tools, logging)
    command = commands.admin(runtime, conf, ["resourcegroups", "create", "orders", "-mp", "9"])
    return await asyncio.to_thread(
        subprocess.run, command, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize(
    ("role", "reason"),
    [("admin", None), ("viewer", "Role viewer is no super-user"), (None, "A token is needed")],
)
async def test_pulsar_admin_shows_its_token(
    tmp_path: Path, role: str | None, reason: str | None
) -> None:
    """A super-user may; who may not is told why, and nothing has changed."""
    world = World()
    settings = config()
    async with serving.serving(settings, app_of(world, access=access())):
        done = await create(tmp_path, settings.admin_listen, role)

    assert (done.returncode == 0) is (reason is None), done.stderr
    assert reason is None or reason in done.stdout + done.stderr
    assert list(world.views.shown.groups) == (["orders"] if reason is None else [])
