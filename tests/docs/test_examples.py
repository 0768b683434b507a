"""What a reader copies works: configurations load, hosts' entries start `serve`, and the library's examples run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from docs.pictures import home as people
from mcp_workbench import load_config
from mcp_workbench.cli.commands import PROGRAM
from mcp_workbench.cli.parser import parse
from mcp_workbench.errors import RequestError
from tests.docs.markdown import GUIDES, ROOT, Block, blocks, plain
from tests.support.users import made_user

README = (ROOT / "README.md").read_text(encoding="utf-8")
QUICKSTART = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
LIBRARY = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
ENVIRONMENT = {"HOME": "/home/me"}
SHELLS = {"sh", "console"}
CALLED = re.compile(r"^(?:\$ )?mcp-workbench ([^<>|\n]+?)(?: [<>|].*)?$(?!\nerror: )", re.MULTILINE)
ANSWERS = {"ok", "tokenizer"}
"""What only the answer of a command has, which may tell of toolboxes too."""


def configurations() -> list[tuple[str, Block]]:
    """Every block that is a configuration of the workbench, or a host's that can be used as one."""
    found = [
        (path.relative_to(ROOT).as_posix(), block)
        for path in GUIDES
        for block in blocks(path.read_text(encoding="utf-8"))
    ]
    return [(name, block) for name, block in found if is_configuration(block)]


def is_configuration(block: Block) -> bool:
    if block.language not in {"json", "jsonc"}:
        return False
    members = json.loads(plain(block.text)).keys()
    return not members.isdisjoint({"toolboxes", "mcpServers"}) and members.isdisjoint(ANSWERS)


@pytest.mark.parametrize(("name", "block"), configurations(), ids=lambda value: value if isinstance(value, str) else "")
def test_every_configuration_in_the_documents_loads(name: str, block: Block, tmp_path: Path):
    del name
    file = tmp_path / "workbench-config.json"
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
    found = [json.loads(block.text) for block in blocks(QUICKSTART) if block.language == "json"]
    return [entry for value in found for key in ("mcpServers", "servers") for entry in value.get(key, {}).values()]


def test_the_entry_for_other_hosts_starts_serve_with_full_paths():
    [entry] = host_entries()
    command, *arguments = entry["args"]
    assert (Path(entry["command"]).name, command) == ("mcp-workbench", "serve")
    for path in (entry["command"], parse(["serve", *arguments]).given["config"]):
        assert Path(path).is_absolute()


def sessions() -> list[tuple[str, str]]:
    """Each command in a terminal of the quickstart, with the output it shows."""
    found = [block.text for block in blocks(QUICKSTART) if block.language == "console"]
    return [(command, printed) for text in found for command, _, printed in [text[2:].partition("\n")]]


def test_the_quickstart_shows_what_the_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    user = made_user(tmp_path, monkeypatch, capsys)
    for path, text in ((".claude.json", people.CLAUDE_CODE), (".cursor/mcp.json", people.CURSOR)):
        (user.home / path).parent.mkdir(exist_ok=True)
        (user.home / path).write_text(text, encoding="utf-8")
    done = [user.run("import_"), user.run("install", host="cursor", remove_imported="true")]
    names = ["mcp-workbench import", "mcp-workbench install cursor --remove-imported"]
    printed = [one.out.replace(str(user.home), "/home/me") for one in done]
    assert sessions() == list(zip(names, printed, strict=True))
    assert user.run("uninstall", host="cursor").status == 0
    assert (user.home / ".cursor/mcp.json").read_text(encoding="utf-8") == people.CURSOR


def command_lines() -> list[tuple[str, str]]:
    """Every line that calls the workbench, at a terminal or in a script, but for those that show an error."""
    texts = [(path, block) for path in GUIDES for block in blocks(path.read_text(encoding="utf-8"))]
    shells = [(path.name, block.text) for path, block in texts if block.language in SHELLS]
    return [(name, match[1]) for name, text in shells for match in CALLED.finditer(text) if "<TAB>" not in match[0]]


@pytest.mark.parametrize(("name", "line"), command_lines())
def test_a_command_line_in_the_documents_is_one_that_can_be_read(name: str, line: str):
    del name
    call = parse(shlex.split(line, comments=True))
    assert call.command != PROGRAM or "--help" in line or "--version" in line


@pytest.mark.parametrize("line", ["lst", "list --jsn", "show dev files", "serve --log-level much"])
def test_a_wrong_command_line_in_the_documents_would_be_found(line: str):
    with pytest.raises(RequestError):
        parse(shlex.split(line))


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
    home, path = str(folder / "home"), os.pathsep.join([str(folder), os.environ["PATH"]])
    return {**os.environ, "HOME": home, "PYTHONPATH": paths, "PATH": path}


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
    # A client of the SDK passes little on but the home: what `serve` keeps must not be in that of whoever runs tests.
    assert any((tmp_path / "home").rglob("record.sqlite")) == ("stdio_client" in program)


def test_the_example_of_the_readme_is_python_with_names_that_exist():
    import mcp_workbench  # noqa: PLC0415 -- its names are looked up

    [block] = [block for block in blocks(README) if block.language == "python"]
    body = "\n".join(f"    {line}" for line in block.text.splitlines())
    compile(f"async def main():\n{body}\n", "README.md", "exec")
    imported = block.text.partition("import ")[2].partition("\n")[0].split(", ")
    assert all(hasattr(mcp_workbench, name) for name in imported)
