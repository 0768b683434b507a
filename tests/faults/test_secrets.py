"""Row C5 of the faults: a server that repeats its secret, and whether anybody reads it in our words."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.rogue_stdio import LEAKS
from tests.support.configs import rogue, write_config
from tests.support.wire import serving, text_of

TOKENS = {"plain": "canary-4711-0815-value", "odd": 'can"ary\\4711\ncanary-0815-välue\nlast'}


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("kind", ["version", *LEAKS])
async def test_c5_what_a_server_says_of_its_secret_stands_in_no_error_and_in_no_log(
    tmp_path: Path, kind: str, token: str
):
    secret = TOKENS[token]
    if kind == "line" and len(secret.splitlines()) == 1:
        secret = f"first-line\n{secret}"
    config = write_config(tmp_path, {"dev": {"fs": rogue("leak", kind, env={"TOKEN": "${SECRET}"})}})
    async with serving(config, "--log-level", "debug", env={"SECRET": secret}) as wire:
        result = await wire.use("dev", "fs", "echo")
        assert result.get("isError") is True or kind == "noise"
        opened = await wire.call("open_toolbox", {"toolbox": "dev"})
        await wire.hang_up()
        said = wire.stderr + (text_of(result) if kind != "noise" else "") + text_of(opened)
    assert "***" in said
    assert not [part for part in ("canary", "can", "4711", "0815") if part in said.replace("can't", "")], said
