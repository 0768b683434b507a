"""A configuration file that changes while it is served: what is picked up, what is refused, and what is said."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import ToolIdentifier, Workbench, load_config, logger
from mcp_workbench.config.locate import origin_of
from mcp_workbench.config.model import Config
from mcp_workbench.errors import ServerNotFound, ToolboxNotFound
from mcp_workbench.limits import Limits
from mcp_workbench.serve.config_watcher import ConfigWatcher
from tests.support.configs import rogue
from tests.support.library import text_of
from tests.support.procs import wait_until

FAST = Limits(reload_poll_seconds=0.01, reload_settle_seconds=0.01)


class Scene:
    """A file, a workbench that follows it, and what is said about it."""

    def __init__(self, file: Path, workbench: Workbench) -> None:
        self.file = file
        self.workbench = workbench
        self.said: list[str] = []
        self.reads = 0
        self.read_it: Callable[[], Any] = lambda: load_config(self.file)

    def read(self) -> Config:
        self.reads += 1
        return self.read_it()

    @property
    def toolboxes(self) -> list[str]:
        return list(self.workbench.config.toolboxes)

    async def hears(self, *words: str) -> None:
        await wait_until(lambda: any(all(word in line for word in words) for line in self.said), what=f"{words}")


def text(*toolboxes: str, **fields: Any) -> str:
    servers = {"s": {"command": "true", **fields}}
    return json.dumps({"toolboxes": {name: {"description": name, "mcpServers": servers} for name in toolboxes}})


@contextlib.asynccontextmanager
async def following(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limits: Limits = FAST) -> AsyncIterator[Scene]:
    file = tmp_path / "workbench-config.json"
    file.write_text(text("a"))
    monkeypatch.setattr(logger, "log", logger.Log(os.open(os.devnull, os.O_WRONLY), level="debug"))
    async with Workbench(load_config(file)) as workbench:
        scene = Scene(file, workbench)
        logger.log.set_listener(lambda event: scene.said.append(event.line))
        with ConfigWatcher(workbench, origin_of((str(file),), scene.read), limits):
            yield scene


@pytest.mark.row("C9")
async def test_c9_a_file_that_changed_is_in_force_and_the_log_says_what_is_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with following(tmp_path, monkeypatch) as scene:
        scene.file.write_text(text("a", "b", args=["x"]))
        await scene.hears("in force", "added=b/s", "changed=a/s")
        assert scene.toolboxes == ["a", "b"]
        replacement = tmp_path / "new.json"
        replacement.write_text(text("b", args=["x"]))
        replacement.replace(scene.file)
        await scene.hears("in force", "removed=a/s")
        assert scene.toolboxes == ["b"]


@pytest.mark.row("C9")
@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "workbench-config.json:1:"),
        ("", "workbench-config.json"),
        ('{"toolboxes": {"a": {}}}', "toolboxes.a"),
        (None, "no such file"),
    ],
)
async def test_c9_a_file_that_cannot_be_used_changes_nothing_and_the_log_says_why(
    content: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with following(tmp_path, monkeypatch) as scene:
        before = scene.workbench.config
        if content is None:
            scene.file.unlink()
        else:
            scene.file.write_text(content)
        await scene.hears("error", "stays in force", words)
        assert scene.workbench.config is before
        with pytest.raises(ToolboxNotFound) as caught:
            await scene.workbench.open("good")
        assert f"is not used: {scene.file}" in caught.value.hint
        with pytest.raises(ServerNotFound) as caught:
            await scene.workbench.use(ToolIdentifier("a", "gone", "x"))
        assert "is not used" in caught.value.hint
        scene.file.write_text(text("good"))
        await scene.hears("in force", "added=good/s")
        assert scene.toolboxes == ["good"]
        with pytest.raises(ToolboxNotFound) as caught:
            await scene.workbench.open("bad")
        assert "is not used" not in caught.value.hint


@pytest.mark.row("C9")
async def test_c9_a_file_that_is_put_back_as_it_was_is_said_to_be_right_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with following(tmp_path, monkeypatch) as scene:
        aside = scene.file.rename(tmp_path / "aside")
        await scene.hears("error", "stays in force")
        aside.rename(scene.file)
        await scene.hears("info", "is valid again")
        scene.file.write_text(text("a", "b"))
        await scene.hears("added=b/s")
        assert sum("valid again" in line for line in scene.said) == 1


@pytest.mark.row("C9")
async def test_c9_a_file_that_is_touched_and_says_the_same_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with following(tmp_path, monkeypatch) as scene:
        os.utime(scene.file, (1, 1))
        await wait_until(lambda: scene.reads == 1, what="that it is read")
        scene.file.write_text(text("a", "b"))
        await scene.hears("in force")
        assert sum("in force" in line for line in scene.said) == 1


@pytest.mark.row("C9")
async def test_c9_a_file_that_is_still_being_written_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    limits = Limits(reload_poll_seconds=0.01, reload_settle_seconds=0.3)
    async with following(tmp_path, monkeypatch, limits) as scene:
        with scene.file.open("w") as file:
            for part in text("a", "b"):
                file.write(part)
                file.flush()
                await asyncio.sleep(0.002)  # as slowly as it takes to be looked at meanwhile
        await scene.hears("in force", "added=b/s")
        assert scene.reads == 1


@pytest.mark.row("C9")
async def test_c9_what_changed_before_anybody_looked_is_picked_up_too(tmp_path: Path):
    file = tmp_path / "workbench-config.json"
    file.write_text(text("a"))
    origin = origin_of((str(file),), lambda: load_config(file))
    async with Workbench(origin.read()) as workbench:
        file.write_text(text("a", "b"))
        with ConfigWatcher(workbench, origin, FAST):
            await wait_until(lambda: list(workbench.config.toolboxes) == ["a", "b"], what="the new toolbox")


@pytest.mark.row("C9")
async def test_c9_any_of_its_files_has_it_read_again(tmp_path: Path):
    """As the record of trust, which may change where the configuration does not."""
    first, second = tmp_path / "first", tmp_path / "second"
    reads: list[int] = []

    def read() -> Config:
        reads.append(1)
        return Config(file=str(first), toolboxes={})

    async with Workbench(read()) as workbench:
        with ConfigWatcher(workbench, origin_of((str(first), str(second)), read), FAST):
            second.write_text("x")
            await wait_until(lambda: len(reads) > 1, what="that it is read again")


@pytest.mark.row("C9")
async def test_c9_what_nobody_foresaw_is_said_and_the_next_change_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with following(tmp_path, monkeypatch) as scene:
        real, scene.read_it = scene.read_it, lambda: 1 / 0
        scene.file.write_text(text("a", "b"))
        await scene.hears("stays in force", "ZeroDivisionError")
        scene.read_it = real
        scene.file.write_text(text("a", "b", "c"))
        await scene.hears("in force", 'added="b/s c/s"')


async def test_settings_that_wait_for_the_next_start_and_missing_variables_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with following(tmp_path, monkeypatch) as scene:
        config = json.loads(text("a", env={"TOKEN": "${NO_SUCH_VARIABLE_AT_ALL}"}))
        scene.file.write_text(json.dumps({**config, "toolMode": "dynamic"}))
        await scene.hears("next start", "settings=toolMode")
        await scene.hears("a variable is not set", "NO_SUCH_VARIABLE_AT_ALL")


async def test_a_change_of_inherit_env_at_the_top_restarts_the_servers_whose_environment_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGION", "north")
    servers = {"has_it": rogue("dump_env", inheritEnv=["REG*"]), "lacks_it": rogue("dump_env")}
    boxes = {"dev": {"description": "d", "mcpServers": servers}}
    async with following(tmp_path, monkeypatch) as scene:

        async def environments() -> dict[str, dict[str, str]]:
            calls = {name: scene.workbench.use(ToolIdentifier("dev", name, "echo")) for name in servers}
            return {name: json.loads(text_of(await call)) for name, call in calls.items()}

        scene.file.write_text(json.dumps({"toolboxes": boxes}))
        await scene.hears("in force", "dev/has_it")
        before = await environments()
        scene.file.write_text(json.dumps({"toolboxes": boxes, "inheritEnv": ["REGION", "NOT_SET"]}))
        await scene.hears("in force", "changed=dev/lacks_it ")
        after = await environments()
    assert after["has_it"] == before["has_it"], "the mark of its start, too"
    assert ("REGION" in before["lacks_it"], after["lacks_it"]["REGION"]) == (False, "north")


async def test_nothing_is_looked_at_after_the_end(tmp_path: Path):
    async with Workbench(Config(file="", toolboxes={})) as workbench:
        with ConfigWatcher(workbench, origin_of((str(tmp_path),), lambda: workbench.config), FAST):
            (thread,) = (thread for thread in threading.enumerate() if thread.name == "config-watcher")
        thread.join(5)
        assert not thread.is_alive()
