"""What a host reads before anything is open: few tokens, and the same bytes whatever servers and store are doing."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec
import pytest

from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Config
from mcp_workbench.surfaces.descriptions import definitions, instructions
from tests.support.configs import rogue, starts, write_config
from tests.support.tokens import cost
from tests.support.wire import CLIENT_INFO, HANDSHAKE_VERSION, MODERN_VERSION, Era, environment
from tests.surfaces.benches import config_of
from tests.test_imports import modules_after

HELLO = {"protocolVersion": HANDSHAKE_VERSION, "capabilities": {}, "clientInfo": CLIENT_INFO}
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
}
TOOLBOXES = {
    "dev": ("Files, version control and tests of the project.", ["filesystem", "git"]),
    "data": ("Query the warehouse and draw charts of what it answers.", ["postgres", "charts"]),
    "web-research": ("Search the web, read pages and take screenshots.", ["brave-search", "playwright"]),
    "operations": ("Look after clusters, deployments and alerts in production.", ["kubernetes", "grafana"]),
    "office": ("Mail, calendars and documents of the team.", ["google-workspace", "slack", "notion"]),
    "payments": ("Invoices, refunds and customers of the shop.", ["stripe"]),
    "design": ("Read designs and export their parts as images.", ["figma"]),
    "home": ("Lights, heating and doors at home.", ["home-assistant"]),
    "machine-learning": ("Train, compare and deploy models, and look for datasets.", ["huggingface", "wandb"]),
    "travel": ("Trains, flights and hotels, with prices and seats.", ["amadeus"]),
    "crm": ("Leads, contacts and deals.", ["hubspot", "salesforce"]),
    "security": ("Scan images and dependencies for known holes, and rotate keys.", ["snyk", "vault"]),
    "legal": ("Search contracts and compare clauses.", ["docusign"]),
    "media_editing": ("Cut videos, convert sound files and draw pictures.", ["ffmpeg", "imagemagick", "blender"]),
    "support": ("Tickets of customers and their answers.", ["zendesk"]),
    "maps": ("Find places, routes and travel times on a map.", ["google-maps"]),
    "finance": ("Prices of shares, currencies and funds.", ["alpha-vantage", "polygon"]),
    "cloud-eu-west": ("Machines, buckets and queues in the data centre in Ireland.", ["aws", "terraform"]),
    "science": ("Papers, citations and molecules.", ["arxiv", "pubchem"]),
}


# -- the same bytes


def conversation(era: Era, config: Path) -> tuple[dict[int, bytes], str]:
    """The lines that a workbench of its own answers, by the number of the request, and its log."""
    first = ("initialize", HELLO) if era == "handshake" else ("server/discover", {})
    opening = {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}
    requests = [first, ("tools/list", {}), ("tools/call", opening), ("tools/list", {})]
    script = config.parent / "requests"
    with script.open("w", encoding="utf-8") as file:
        for number, (method, params) in enumerate(requests):
            sent = params if era == "handshake" else {**params, "_meta": ENVELOPE}
            file.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": sent}) + "\n")
    with script.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config)],
            stdin=stdin, capture_output=True, check=True, timeout=30, env=environment(config.parent / "home"),
        )  # fmt: skip
    lines = {json.loads(line)["id"]: line for line in done.stdout.splitlines()}
    assert set(lines) == set(range(len(requests)))
    return lines, done.stderr.decode()


def as_before(line: bytes, number: int) -> bytes:
    """A line under another number."""
    return line.replace(b'"id":%d' % json.loads(line)["id"], b'"id":%d' % number, 1)


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_what_a_host_reads_first_is_the_same_bytes_in_whatever_state_servers_and_store_are(era: Era, tmp_path: Path):
    log, needed = tmp_path / "log", tmp_path / "needed"
    needed.touch()
    config = write_config(
        tmp_path, {"dev": {"ill": rogue("needs", needed, log=log), "well": rogue(log=log)}, "ops": {"x": rogue()}}
    )
    store = tmp_path / "home" / "XDG_CACHE_HOME" / "mcp-workbench" / "catalog.sqlite"
    states: dict[str, bytes] = {}
    for state in ("cold", "warm", "damaged", "failing"):
        if state in ("damaged", "failing"):
            store.write_bytes(b"nonsense" * 1000)
        if state == "failing":
            needed.unlink()
        before = len(starts(log))
        lines, _ = conversation(era, config)
        assert (len(starts(log)) == before) == (state == "warm")
        assert ("servers_failed" in lines[2].decode()) == (state == "failing")
        assert as_before(lines[3], 1) == lines[1]
        states[state] = lines[0] + lines[1]
    assert len(set(states.values())) == 1


def test_both_eras_read_the_same_words(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    told = []
    for era in ("handshake", "modern"):
        lines, _ = conversation(era, config)
        hello, listed = (json.loads(lines[number])["result"] for number in (0, 1))
        told.append((hello["instructions"], json.dumps(listed["tools"])))
    assert told[0] == told[1]
    assert (json.dumps([json.loads(bytes(one)) for one in definitions(load_config(config))])) == told[0][1]
    assert instructions(load_config(config)) == told[0][0]


# -- few tokens


def described(toolboxes: Mapping[str, tuple[str, Iterable[str]]]) -> Config:
    plain = config_of({name: {server: [] for server in servers} for name, (_, servers) in toolboxes.items()})
    return msgspec.structs.replace(
        plain,
        toolboxes={
            name: msgspec.structs.replace(toolbox, description=toolboxes[name][0])
            for name, toolbox in plain.toolboxes.items()
        },
    )


def bill(toolboxes: Mapping[str, tuple[str, Iterable[str]]]) -> tuple[int, int]:
    """What the two tools and the instructions cost, and what the toolboxes' own names and descriptions do."""
    loaded = described(toolboxes)
    listed = b"[" + b",".join(bytes(one) for one in definitions(loaded)) + b"]"
    own = sum(cost(name) + cost(description) for name, (description, _) in toolboxes.items())
    return cost(listed.decode()) + cost(instructions(loaded)), own


def assert_cheap(names: Iterable[str]) -> None:
    chosen = {name: TOOLBOXES[name] for name in names}
    whole, own = bill(chosen)
    assert whole <= 400 + 2 * own, list(chosen)


def test_the_two_tools_and_the_instructions_cost_little_beside_what_the_toolboxes_say_of_themselves():
    for chosen in itertools.combinations(TOOLBOXES, 2):
        assert_cheap(chosen)
    names = list(TOOLBOXES)
    for first, count in itertools.product(range(len(names)), range(1, len(names) + 1)):
        assert_cheap((names + names)[first : first + count])


def test_few_descriptions_stand_whole_in_the_tool_and_many_in_the_instructions_alone():
    texts = {name: description for name, (description, _) in TOOLBOXES.items()}
    few = dict(list(TOOLBOXES.items())[:6])
    opening = json.loads(bytes(definitions(described(few))[0]))["description"]
    assert all(f"{name}: {texts[name]}" in opening for name in few)
    every = described(TOOLBOXES)
    opening = json.loads(bytes(definitions(every)[0]))["description"]
    parts = opening.partition("toolbox. ")[2].split("; ")
    assert [part.partition(": ")[0] for part in parts] == list(TOOLBOXES)
    for name, part in zip(TOOLBOXES, parts, strict=True):
        begin = part.partition(": ")[2].removesuffix("…")
        assert texts[name].startswith(begin)
        assert texts[name][len(begin)] in " ,."
        assert len(begin.split()) >= 2
    assert all(description in instructions(every) for description in texts.values())


def test_it_costs_the_same_however_many_servers_and_tools_there_are():
    few, own = bill({"dev": ("Files.", ["fs"])})
    many, _ = bill({"dev": ("Files.", ["fs", *(f"s{number}" for number in range(98))])})
    assert many - few <= 2  # the number of servers
    assert few <= 400 + 2 * own


# -- what is loaded


def names_of(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


GREETED = """
import os, sys
from mcp_workbench.cli import serve
from mcp_workbench.config.load import load_config
from mcp_workbench.config.model import Config
from mcp_workbench.serve.early_initialize import greet
source, client = os.pipe()
answers, sink = os.pipe()
os.write(client, sys.argv[2].encode() + b"\\n")
greet(load_config(sys.argv[1]), source, sink)
print(os.read(answers, 65536).decode(), end="")
print(*sys.modules)
"""


def test_the_first_answer_waits_for_nothing_of_the_store(tmp_path: Path):
    config = write_config(tmp_path, {"dev": {"fs": rogue()}})
    hello = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO})
    done = subprocess.run(
        [sys.executable, "-c", GREETED, str(config), hello],
        capture_output=True, text=True, check=True, timeout=20, env=environment(tmp_path),
    )  # fmt: skip
    answer, modules = done.stdout.splitlines()
    assert json.loads(answer)["result"]["instructions"]
    loaded = set(modules.split())
    assert not names_of(loaded) & {"asyncio", "sqlite3", "_sqlite3", "hashlib", "bpe_openai"}
    assert not {name for name in loaded if name.startswith("mcp_workbench.catalog")}


def test_before_a_search_neither_the_ranker_nor_a_tokenizer_is_loaded(tmp_path: Path):
    modules, _ = modules_after(tmp_path, ("initialize", HELLO), ("tools/list", {}))
    assert not names_of(modules) & {"bpe_openai", "tiktoken", "numpy", "wordllama"}
    assert "mcp_workbench.catalog.search.index" not in modules


def test_an_open_loads_the_store_a_search_the_ranker_and_neither_a_tokenizer(tmp_path: Path):
    opening = {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}
    modules, _ = modules_after(tmp_path, ("initialize", HELLO), ("tools/call", opening))
    assert "sqlite3" in names_of(modules)
    assert "mcp_workbench.catalog.search.index" not in modules
    opening["arguments"] = {"toolbox": "dev", "query": "echo", "detail": "signature"}
    modules, answers = modules_after(tmp_path, ("initialize", HELLO), ("tools/call", opening))
    assert "mcp_workbench.catalog.search.index" in modules
    assert '"signature' in json.dumps(answers)
    assert not names_of(modules) & {"bpe_openai", "tiktoken", "numpy", "wordllama"}
