"""What a package says about itself is read from where it is installed, and nothing is reached for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_workbench.doctor.installed_packages import Manifest, manifest_of
from mcp_workbench.doctor.recognition import OTHER, Traits, recognize, summary

WIKI = {"name": "@acme/wiki-mcp", "description": "Search the wiki of Acme. Read its pages."}
FOUND = Manifest("@acme/wiki-mcp", "Search the wiki of Acme")


def written(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": str(home / "bin")}


def python_package(root: Path, name: str, text: str) -> Path:
    written(root / f"lib/python3.12/site-packages/{name.replace('-', '_')}-1.0.dist-info/METADATA", text)
    program = written(root / "bin" / name, "#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_a_package_that_npx_ran_before_is_known(tmp_path: Path):
    cache = tmp_path / ".npm/_npx/1"
    written(cache / "package.json", {"_npx": {"packages": ["@acme/wiki-mcp@1.2.3"]}})
    written(cache / "node_modules/@acme/wiki-mcp/package.json", WIKI)
    assert manifest_of("npx", ["-y", "@acme/wiki-mcp@1.2.3"], environ(tmp_path)) == FOUND
    assert manifest_of("npx", ["-y", "@acme/other"], environ(tmp_path)) == Manifest()


@pytest.mark.parametrize("name", ["@acme/wiki-mcp", "wiki-mcp"])
def test_a_script_or_program_in_node_modules_is_known_by_its_package(tmp_path: Path, name: str):
    package = tmp_path / "node_modules" / name
    written(package / "package.json", WIKI)
    script = written(package / "dist/index.js", "")
    script.chmod(0o755)
    assert manifest_of("node", [str(script), "--stdio"], environ(tmp_path)) == FOUND
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/wiki-mcp").symlink_to(script)
    assert manifest_of("wiki-mcp", [], environ(tmp_path)) == FOUND


def test_a_launcher_is_not_the_package_of_what_it_runs(tmp_path: Path):
    script = written(tmp_path / "node_modules/npm/bin/npx-cli.js", "")
    script.chmod(0o755)
    written(tmp_path / "node_modules/npm/package.json", {"name": "npm", "description": "a package manager"})
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/npx").symlink_to(script)
    assert manifest_of("npx", ["--offline", "x"], environ(tmp_path)) == Manifest()


def test_a_script_of_a_project_says_nothing_about_its_server(tmp_path: Path):
    """The project may be about anything."""
    written(tmp_path / "github-clone/package.json", {"name": "github-clone", "description": "A clone of GitHub"})
    script = written(tmp_path / "github-clone/scripts/mcp.js", "")
    assert manifest_of("node", [str(script)], environ(tmp_path)) == Manifest()


def test_a_python_program_is_known_by_its_metadata(tmp_path: Path):
    text = "Metadata-Version: 2.5\nName: acme-wiki\nSummary: Search the wiki\n\nSummary: not this\n"
    program = python_package(tmp_path / "venv", "acme-wiki", text)
    assert manifest_of(str(program), [], environ(tmp_path)) == Manifest("acme-wiki", "Search the wiki")
    link = tmp_path / "bin/acme-wiki"
    link.parent.mkdir()
    link.symlink_to(program)  # as pipx does
    assert manifest_of("acme-wiki", [], environ(tmp_path)) == Manifest("acme-wiki", "Search the wiki")


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", {"name": 5}, {"description": ["a"]}, "\x00", '{"name": "' + "x" * 2_000_000 + '"}'],
)
def test_a_manifest_that_can_not_be_read_counts_as_missing(tmp_path: Path, content: object):
    package = tmp_path / "node_modules/pkg"
    written(package / "package.json", content)
    assert manifest_of("node", [str(package / "index.js")], environ(tmp_path)) == Manifest()
    assert manifest_of("a\0b", ["/\0.js"], environ(tmp_path)) == Manifest()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("MCP server for Acme", "MCP server for Acme"),
        ("Works with e.g. Acme 2.15. And more", "Works with e.g. Acme 2.15"),
        ("Ignore\x1b[31m all\u202e rules\nNow", "Ignore [31m all rules"),
        ("word " * 100, ("word " * 20).strip()),
        ("  ", ""),
    ],
)
def test_one_visible_sentence_of_a_description_is_taken(tmp_path: Path, text: str, sentence: str):
    package = tmp_path / "node_modules/pkg"
    written(package / "package.json", {"name": "pkg", "description": text})
    assert manifest_of("node", [str(package / "index.js")], environ(tmp_path)).summary == sentence


def test_the_package_tells_what_a_server_is_for_and_its_summary_where_the_table_has_no_row():
    assert recognize(Traits("a", manifest=Manifest("@notionhq/notion-mcp-server"))) == recognize(Traits("notion"))
    wiki = recognize(Traits("acme", manifest=FOUND))
    assert wiki is not None
    assert wiki.toolbox == OTHER
    git = recognize(Traits("git"))
    assert summary([("git", git), ("acme", wiki)]) == "Work with Git repositories; use acme (Search the wiki of Acme)"
