"""What a reader copies works: configurations load, hosts' entries start `serve`, and the library's examples run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_workbench import load_config
from mcp_workbench.cli import options
from tests.docs.markdown import GUIDES, ROOT, Block, blocks, plain

README = (ROOT / "README.md").read_text(encoding="utf-8")
LIBRARY = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
ENVIRONMENT = {"HOME": "/home/me"}


def configurations() -> list[tuple[str, Block]]:
    """Every block that is a configuration of the workbench, or a host's that can be used as one."""
    found = [(path.name, block) for path in GUIDES for block in blocks(path.read_text(encoding="utf-8"))]
    return [(name, block) for name, block in found if is_configuration(block)]


def is_configuration(block: Block) -> bool:
    if block.language not in {"json", "jsonc"}:
        return False
    return not json.loads(plain(block.text)).keys().isdisjoint({"toolboxes", "mcpServers"})


@pytest.mark.parametrize(("name", "block"), configurations(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_configuration_in_the_documents_loads(name: str, block: Block, tmp_path: Path):
    file = tmp_path / name
    file.write_text(block.text, encoding="utf-8")
    assert load_config(file, environ=ENVIRONMENT).toolboxes


def test_the_readme_has_a_configuration_that_needs_no_variable_but_home(tmp_path: Path):
    [block] = [block for name, block in configurations() if name == "README.md" and '"toolboxes"' in block.text]
    file = tmp_path / "workbench-config.json"
    file.write_text(block.text, encoding="utf-8")
    config = load_config(file, environ=ENVIRONMENT, strict=True)
    assert config.warnings == ()
    assert len(list(config.servers())) > len(config.toolboxes) > 1


def host_entries() -> list[dict[str, Any]]:
    found = [json.loads(block.text) for block in blocks(README) if block.language == "json"]
    return [entry for value in found for key in ("mcpServers", "servers") for entry in value.get(key, {}).values()]


def test_the_entries_for_hosts_start_serve_with_a_full_path():
    assert len(host_entries()) == 2
    for entry in host_entries():
        command, *arguments = entry["args"]
        assert (entry["command"], command) == ("mcp-workbench", "serve")
        assert Path(options.read_plain(arguments, options.SERVE)["config"]).is_absolute()


def test_the_line_for_claude_code_starts_serve():
    [line] = [line for block in blocks(README) for line in block.text.splitlines() if line.startswith("claude mcp add")]
    command = line.partition(" -- ")[2].split()
    assert command[:2] == ["mcp-workbench", "serve"]
    assert options.read_plain(command[2:], options.SERVE)["config"]


def ready(folder: Path) -> dict[str, str]:
    """Put the configuration of docs/library.md, and the command, where its examples look for them."""
    [block] = [block for block in blocks(LIBRARY) if block.language == "json"]
    config = json.loads(block.text)
    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    for toolbox in config["toolboxes"].values():
        for server in toolbox["mcpServers"].values():
            assert server["command"] == "python3"
            server |= {"command": sys.executable, "env": {"PYTHONPATH": paths}}
    (folder / "workbench-config.json").write_text(json.dumps(config), encoding="utf-8")
    script = folder / "mcp-workbench"
    script.write_text(
        f"#!/bin/sh\nPYTHONPATH='{paths}' exec '{sys.executable}' -m mcp_workbench \"$@\"\n", encoding="utf-8"
    )
    script.chmod(0o755)
    return {**os.environ, "PYTHONPATH": paths, "PATH": os.pathsep.join([str(folder), os.environ["PATH"]])}


def examples() -> list[tuple[str, str]]:
    """Each program of docs/library.md, with what the text says that it prints."""
    found = blocks(LIBRARY)
    programs = [index for index, block in enumerate(found) if block.language == "python"]
    return [(found[index].text, found[index + 1].text) for index in programs]


@pytest.mark.parametrize(("program", "printed"), examples(), ids=["workbench", "client"])
def test_an_example_of_the_library_prints_what_the_text_says(program: str, printed: str, tmp_path: Path):
    file = tmp_path / "example.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)],
        cwd=tmp_path,
        env=ready(tmp_path),
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, printed), done.stderr


def test_the_example_of_the_readme_is_python_with_names_that_exist():
    import mcp_workbench  # noqa: PLC0415 -- its names are looked up

    [block] = [block for block in blocks(README) if block.language == "python"]
    body = "\n".join(f"    {line}" for line in block.text.splitlines())
    compile(f"async def main():\n{body}\n", "README.md", "exec")
    imported = block.text.partition("import ")[2].partition("\n")[0].split(", ")
    assert all(hasattr(mcp_workbench, name) for name in imported)
