"""Which package a command fetches, and whether it says which version."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.checkup.packages import fetched_package

SHA = "9f86d081884c7d659a2feaa0c55ad0159f86d081"


@pytest.mark.parametrize(
    ("line", "example"),
    [
        ("npx pkg", "pkg@1.2.3"),
        ("npx -y @scope/pkg /tmp", "@scope/pkg@1.2.3"),
        ("npx -y @scope/pkg@latest", "@scope/pkg@1.2.3"),
        ("npx pkg@next", "pkg@1.2.3"),
        ("npx pkg@^1.2.3", "pkg@1.2.3"),
        ("npx pkg@1", "pkg@1.2.3"),
        ("npx -y --package=pkg command", "pkg@1.2.3"),
        ("npx -y -p pkg command", "pkg@1.2.3"),
        ("npx --registry https://r.example pkg", "pkg@1.2.3"),
        ("npx github:me/repo", "github:me/repo#COMMIT"),
        ("npx me/repo", "me/repo#COMMIT"),
        ("/usr/bin/npx pkg", "pkg@1.2.3"),
        ("npx.cmd pkg", "pkg@1.2.3"),
        ("bunx pkg", "pkg@1.2.3"),
        ("npm exec pkg", "pkg@1.2.3"),
        ("npm x pkg", "pkg@1.2.3"),
        ("pnpm dlx pkg", "pkg@1.2.3"),
        ("deno run -A --allow-env=HOME npm:@scope/pkg", "npm:@scope/pkg@1.2.3"),
        ("deno run jsr:@scope/pkg@1", "jsr:@scope/pkg@1.2.3"),
        ("uvx pkg", "pkg==1.2.3"),
        ("uvx pkg@latest --flag", "pkg==1.2.3"),
        ("uvx pkg>=1.0", "pkg==1.2.3"),
        ("uvx --python 3.12 pkg[extra]", "pkg[extra]==1.2.3"),
        ("uvx --from pkg command", "pkg==1.2.3"),
        ("uvx --from git+https://github.com/a/b command", "git+https://...@COMMIT"),
        ("uv tool run pkg", "pkg==1.2.3"),
        ("pipx run pkg", "pkg==1.2.3"),
        ("docker run -i --rm image", "image:1.2.3"),
        ("docker run -i --rm -e KEY --name x mcp/image:latest arg", "mcp/image:1.2.3"),
        ("docker run --rm -it --mount type=bind,src=/a,dst=/b reg:5000/a/b", "reg:5000/a/b:1.2.3"),
        ("docker run -v/a:/b image", "image:1.2.3"),
        ("podman run image", "image:1.2.3"),
    ],
)
def test_a_package_without_a_fixed_version_is_found(line: str, example: str):
    command, *arguments = line.split()
    package = fetched_package(command, arguments)
    assert package is not None
    assert (package.is_pinned, package.example) == (False, example)


@pytest.mark.parametrize(
    "line",
    [
        "npx pkg@1.2.3",
        "npx -y @scope/pkg@1.2.3-beta.1 /tmp",
        f"npx github:me/repo#{SHA}",
        "deno run -A npm:pkg@1.2.3",
        "uvx pkg==1.2",
        "uvx pkg@1.2.3",
        "uvx pkg[extra]==1.2.3",
        f"uvx --from git+https://github.com/a/b@{SHA} command",
        "docker run -i image:1.2",
        f"docker run image@sha256:{SHA}",
        "docker run reg:5000/image:v1",
    ],
)
def test_a_fixed_version_is_seen(line: str):
    command, *arguments = line.split()
    package = fetched_package(command, arguments)
    assert package is not None
    assert package.is_pinned


@pytest.mark.parametrize(
    "line",
    [
        "node server.js",
        "npx ./server",
        "npx",
        "npx -y",
        "npx .",
        "npx --no-install pkg",
        "npx --no pkg",
        "npx --offline pkg",
        "uvx ./here",
        "uvx --from . command",
        "uvx --from ..",
        "uvx --offline pkg",
        "deno run -A server.ts",
        "deno run",
        "docker run --pull=never image",
        "docker run --pull never image",
        "uv run server.py",
        "docker compose up",
        "docker run",
        "npx pkg@${VERSION}",
        "docker run ${IMAGE}",
        "python -m npx",
        "npm start",
    ],
)
def test_what_fetches_nothing_or_is_said_by_a_variable_is_left_alone(line: str):
    command, *arguments = line.split()
    assert fetched_package(command, arguments) is None


WORD = st.text(max_size=12) | st.sampled_from(["run", "tool", "x", "-e", "--", "-", "--from", "-p", "@", "a@"])


@given(st.sampled_from(["npx", "uvx", "docker", "uv", "pipx", "bun", "deno"]), st.lists(WORD, max_size=6))
def test_any_command_line_can_be_read(command: str, arguments: list[str]):
    package = fetched_package(command, arguments)
    assert package is None or package.spec
