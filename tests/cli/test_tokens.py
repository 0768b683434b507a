"""`mcp-workbench tokens`: what an agent reads, without the workbench and with it, in the user's own configuration."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import load_config, logger
from mcp_workbench.catalog.rendering.budget import estimate
from mcp_workbench.cli import tokens as module
from mcp_workbench.surfaces.descriptions import definitions, instructions
from tests.support.commands import Result, invoke
from tests.support.configs import rogue, starts, write_config
from tests.support.tokens import cost, encoding
from tests.support.wire import environment, serving

TALK = "Does the thing with a path, a limit and a pattern, and answers with what it found there. " * 5


@pytest.fixture(autouse=True)
def own_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command changes for its whole process is undone; the store is that of programs started by a test."""
    encoding()
    monkeypatch.setattr(logger, "log", logger.Log())
    for hook in ("excepthook", "unraisablehook"):
        monkeypatch.setattr(sys, hook, getattr(sys, hook))
    for name, value in environment(tmp_path / "home").items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("WORKBENCH_CATALOG")


def without_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)


def tokens(config: Path, *arguments: str) -> Result:
    return invoke("tokens", "--config", str(config), *arguments)


def shelf_of(folder: Path, count: int, name: str = "shelf") -> Path:
    path = folder / f"{name}.json"
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Which file."}}}
    tools = [{"name": f"tool_{n}", "description": f"{n}: {TALK}", "inputSchema": schema} for n in range(count)]
    path.write_text(json.dumps(tools), encoding="utf-8")
    return path


def two(folder: Path, log: Path | None = None, **settings: Any) -> Path:
    boxes = {
        "dev": {"big": rogue("shelf", shelf_of(folder, 120), log=log)},
        "ops": {"small": rogue("ok", "a", log=log), "ill": rogue("exit_at_start")},
    }
    return write_config(folder, boxes, **settings)


async def answers_of(config: Path, toolbox: str) -> tuple[str, str]:
    """What an agent really reads: the list of a server, and the answer of an open."""
    async with serving(config) as wire:
        result = await wire.call("open_toolbox", {"toolbox": toolbox})
        whole = await wire.open(toolbox, detail="full")
    own = [
        {key: value for key, value in tool.items() if key not in ("toolbox_name", "source_server")}
        for tool in whole["tools"]
    ]
    return json.dumps(own, separators=(",", ":")), result["content"][0]["text"]


def test_what_is_told_is_what_an_agent_reads(tmp_path: Path):
    log = tmp_path / "log"
    config = two(tmp_path, log)
    result = tokens(config, "--json")
    assert result.exit_code == 0
    told = json.loads(result.stdout)
    assert told["tokenizer"] == "o200k_base"
    loaded = load_config(config)
    at_start = b"".join(bytes(one) for one in definitions(loaded)).decode() + instructions(loaded)
    assert told["start"] == cost(at_start)
    dev, ops = told["toolboxes"]
    assert (dev["toolbox"], dev["tools"], dev["failed"]) == ("dev", 120, [])
    assert (ops["toolbox"], ops["tools"], ops["failed"]) == ("ops", 1, ["ill"])
    assert told["without"] == dev["without"] + ops["without"]
    flat, opened = asyncio.run(answers_of(config, "dev"))
    assert dev["without"] == cost(flat)
    assert abs(dev["open"] - cost(opened)) <= 5  # it is from memory now, and says so
    assert 0 < dev["search"] <= dev["open"] <= 8000 < dev["without"]
    assert len(starts(log)) == 2


def test_a_table_for_people_with_the_tokenizer_named(tmp_path: Path):
    result = tokens(two(tmp_path))
    assert result.exit_code == 0
    told = json.loads(tokens(two(tmp_path), "--json").stdout)
    head, dev, ops, _, without, at_start, forms, counted, failed = result.stdout.splitlines()
    assert head.split() == ["tools", "without", "open", "full", "signature", "search"]
    for line, box in ((dev, told["toolboxes"][0]), (ops, told["toolboxes"][1])):
        name, *numbers = line.split()
        assert name == box["toolbox"]
        shown = [int(number.replace(",", "")) for number in numbers]
        assert shown[:2] == [box["tools"], box["without"]]
        assert abs(shown[2] - box["open"]) <= 5
    assert len({len(line) for line in (head, dev, ops)}) == 1
    assert f"{told['without']:,} tokens" in without
    assert f"{told['start']:,} tokens ({1 - told['start'] / told['without']:.0%} less)" in at_start
    full, signature = (sum(box[form] for box in told["toolboxes"]) for form in ("full", "signature"))
    numbers = [int(number.replace(",", "")) for number in re.findall(r"[\d,]+(?= tokens|(?= \())", forms)]
    assert numbers == [pytest.approx(full, abs=10), pytest.approx(signature, abs=10)]
    assert counted == "counted with: o200k_base"
    assert re.fullmatch(r"not counted, .*: ops/ill", failed)


def test_without_the_tokenizer_tokens_are_estimated_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    without_tokenizer(monkeypatch)
    config = write_config(tmp_path, {"dev": {"one": rogue()}})
    told = json.loads(tokens(config, "--json").stdout)
    assert told["tokenizer"] == "estimated from bytes"
    loaded = load_config(config)
    assert told["start"] == estimate(
        b"".join(bytes(one) for one in definitions(loaded)) + instructions(loaded).encode()
    )
    assert "counted with: estimated from bytes" in tokens(config).stdout


def test_one_toolbox_can_be_named(tmp_path: Path):
    log = tmp_path / "log"
    told = json.loads(tokens(two(tmp_path, log), "ops", "--json").stdout)
    assert [box["toolbox"] for box in told["toolboxes"]] == ["ops"]
    assert len(starts(log)) == 1


def test_an_unknown_toolbox_is_told_with_the_nearest_and_nothing_is_started(tmp_path: Path):
    log = tmp_path / "log"
    result = tokens(two(tmp_path, log), "pos")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "Toolbox 'pos' not found" in result.stderr
    assert "Did you mean 'ops'?" in result.stderr
    assert starts(log) == []


def test_what_is_remembered_is_counted_without_a_start(tmp_path: Path):
    log = tmp_path / "log"
    config = write_config(tmp_path, {"dev": {"one": rogue(log=log)}})
    first, second = (json.loads(tokens(config, "--json").stdout) for _ in range(2))
    assert first["without"] == second["without"] > 0
    assert len(starts(log)) == 1


def test_a_toolbox_that_cannot_be_opened_at_all_is_told(tmp_path: Path):
    result = tokens(write_config(tmp_path, {"dev": {"ill": rogue("exit_at_start")}}))
    assert result.exit_code == 0
    assert "not counted, since they failed: dev/ill" in result.stdout
    assert "less" not in result.stdout


def test_the_budget_of_the_configuration_counts(tmp_path: Path):
    config = two(tmp_path, openBudget=1000)
    told = json.loads(tokens(config, "dev", "--json").stdout)["toolboxes"][0]
    assert told["open"] <= 1000
    assert told["search"] <= 1000


def test_the_cost_of_each_form_is_shown_and_the_configured_one_is_what_an_open_costs(tmp_path: Path):
    for detail in ("full", "signature"):
        dev = json.loads(tokens(two(tmp_path, openDetail=detail), "dev", "--json").stdout)["toolboxes"][0]
        assert abs(dev["open"] - dev[detail]) <= 5
        assert 0 < dev["auto"] <= 8000 < dev["signature"] < dev["full"]
        head, *_ = tokens(two(tmp_path, openDetail=detail), "dev").stdout.splitlines()
        assert head.split() == ["tools", "without", "open", "auto", "full", "signature", "search"]


def test_the_tokenizer_is_asked_for_only_here():
    name, count = module.tokenizer()
    assert (name, count("Reads a file, 日本 🙂".encode())) == ("o200k_base", cost("Reads a file, 日本 🙂"))
