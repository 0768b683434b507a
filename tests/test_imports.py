"""What `serve` over stdio imports: nothing large, up to and including a first call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_workbench
from tests.support.configs import rogue, write_config
from tests.support.wire import environment

FORBIDDEN = {
    "mcp",
    "pydantic",
    "pydantic_core",
    "click",
    "rich",
    "jsonschema",
    "anyio",
    "httpx",
    "starlette",
    "tiktoken",
    "bpe_openai",
    "wordllama",
    "numpy",
    "ssl",
}
DUMP = """
import atexit, json, os, sys
atexit.register(lambda: open(os.environ["DUMP_MODULES"], "w").write(json.dumps(sorted(sys.modules))))
"""


def modules_after(folder: Path, *requests: tuple[str, dict[str, object]]) -> tuple[set[str], list[dict[str, object]]]:
    """The modules that `serve` had imported at its end, and its answers."""
    (folder / "sitecustomize.py").write_text(DUMP, encoding="utf-8")
    script, answers, dump = folder / "requests", folder / "answers", folder / "modules.json"
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) for n, (m, p) in enumerate(requests)]
    script.write_text("\n".join(lines) + "\n", encoding="utf-8")
    config = write_config(folder, {"dev": {"fs": rogue()}})
    env = environment(folder / "home") | {"DUMP_MODULES": str(dump)}
    env["PYTHONPATH"] = f"{folder}:{env['PYTHONPATH']}"
    with script.open("rb") as stdin, answers.open("wb") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "mcp_workbench", "serve", "--config", str(config)],
            stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, check=False, timeout=20, env=env,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return set(json.loads(dump.read_text())), [json.loads(line) for line in answers.read_text().splitlines()]


def test_serving_a_call_imports_none_of_the_large_packages(tmp_path: Path):
    call = {"tool": {"toolbox": "dev", "server": "fs", "tool": "nonce"}, "arguments": {"nonce": "7"}}
    modules, answers = modules_after(
        tmp_path,
        ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}),
        ("tools/list", {}),
        ("tools/call", {"name": "open_toolbox", "arguments": {"toolbox": "dev"}}),
        ("tools/call", {"name": "use_tool", "arguments": call}),
    )
    assert '"text":"7"' in json.dumps(answers, separators=(",", ":"))
    imported = {name.partition(".")[0] for name in modules}
    assert "mcp_workbench" in imported
    assert not imported & FORBIDDEN
    only_mistakes = ("spelling", "surfaces.corrections", "surfaces.intent", "surfaces.tool_lookup")
    assert not {f"mcp_workbench.{name}" for name in only_mistakes} & modules


def test_a_wrong_configuration_is_told_without_them_too(tmp_path: Path):
    config = tmp_path / "c.json"
    config.write_text("{", encoding="utf-8")
    code = (
        "import sys, runpy\n"
        "sys.argv = ['mcp-workbench', 'serve', '--config', sys.argv[1]]\n"
        "try: runpy.run_module('mcp_workbench', run_name='__main__')\n"
        "except SystemExit as end: print(end.code, *sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(config)],
        capture_output=True, text=True, check=False, timeout=20, env=environment(tmp_path), stdin=subprocess.DEVNULL,
    )  # fmt: skip
    status, *imported = done.stdout.split()
    assert status == "2"
    assert not set(imported) & FORBIDDEN


def test_the_public_names_are_imported_when_they_are_used(tmp_path: Path):
    code = (
        "import sys, mcp_workbench\n"
        "print(sorted(name for name in sys.modules if name.startswith('mcp_workbench')))\n"
        "mcp_workbench.Workbench\n"
        "print('mcp_workbench.workbench' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20, env=environment(tmp_path)
    )
    assert done.stdout == "['mcp_workbench']\nTrue\n"


@pytest.mark.parametrize("name", mcp_workbench.__all__)
def test_every_public_name_is_there(name: str):
    assert getattr(mcp_workbench, name) is not None
