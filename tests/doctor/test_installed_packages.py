"""The versions that launchers have installed: read from their caches, and never invented."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from mcp_workbench.doctor.installed_packages import installed_version
from mcp_workbench.doctor.packages import fetched_packages


def in_npx(home: Path, folder: str, spec: str, name: str, version: object) -> None:
    place = home / ".npm" / "_npx" / folder
    (place / "node_modules" / name).mkdir(parents=True)
    (place / "package.json").write_text(json.dumps({"_npx": {"packages": [spec]}}))
    (place / "node_modules" / name / "package.json").write_text(json.dumps({"version": version}))


def in_uv(home: Path, environment: str, distribution: str, age: float = 0) -> None:
    """As uv 0.13 does: an environment is a link into its archive."""
    archive = home / ".cache/uv/archive-v0" / environment
    info = archive / "lib/python3.11/site-packages" / f"{distribution}.dist-info"
    info.mkdir(parents=True)
    os.utime(info, (1e9 - age, 1e9 - age))
    link = home / ".cache/uv/environments-v2" / environment
    link.mkdir(parents=True)
    (link / "a").symlink_to(archive)


def version(home: Path, line: str, reported: str = "") -> str:
    command, *arguments = line.split()
    [package] = fetched_packages(command, arguments)
    return installed_version(package, {"HOME": str(home)}, reported)


def test_npx_names_the_version_of_the_same_command_line(tmp_path: Path):
    in_npx(tmp_path, "a", "@scope/pkg", "@scope/pkg", "2026.8.31")
    in_npx(tmp_path, "b", "@scope/pkg@1.0.0", "@scope/pkg", "1.0.0")
    assert version(tmp_path, "npx -y @scope/pkg") == "2026.8.31"
    assert version(tmp_path, "npx -y @scope/pkg", reported="0.1.0") == "2026.8.31"
    assert version(tmp_path, "npx -y @scope/pkg@latest") == ""
    assert version(tmp_path, "bunx @scope/pkg") == ""


@pytest.mark.parametrize("found", ["", "../x", 7, None, "1.0 && rm", "9" * 100])
def test_what_is_no_version_is_not_named(tmp_path: Path, found: object):
    in_npx(tmp_path, "a", "pkg", "pkg", found)
    (tmp_path / ".npm/_npx/b").mkdir()
    (tmp_path / ".npm/_npx/b/package.json").write_text("{")
    assert version(tmp_path, "npx pkg") == ("7" if found == 7 else "")


def test_uvx_names_the_newest_environment_or_the_one_that_the_server_reports(tmp_path: Path):
    in_uv(tmp_path, "old", "mcp_server_time-2026.1.1", age=100)
    in_uv(tmp_path, "new", "mcp_server_time-2026.10.19")
    in_uv(tmp_path, "other", "mcp_server_time_zones-9.9")
    assert version(tmp_path, "uvx mcp-server-time") == "2026.10.19"
    assert version(tmp_path, "uvx --from MCP.Server-Time[all] x") == "2026.10.19"
    assert version(tmp_path, "uvx mcp-server-time", reported="2026.1.1") == "2026.1.1"
    assert version(tmp_path, "uvx mcp-server-git") == ""
    tool = (
        tmp_path / ".local/share/uv/tools/mcp-server-time/lib/python3.12/site-packages/mcp_server_time-2026.5.dist-info"
    )
    tool.mkdir(parents=True)
    assert version(tmp_path, "uvx mcp-server-time") == "2026.5"


def test_nothing_is_named_where_there_is_no_cache(tmp_path: Path):
    assert version(tmp_path, "npx pkg") == version(tmp_path, "uvx pkg") == ""
    assert version(tmp_path, "docker run image") == ""
