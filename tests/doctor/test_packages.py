"""Which packages a command fetches, also behind other programs, and whether it says which version of each."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_workbench.doctor.packages import Package, fetched_packages

SHA = "9f86d081884c7d659a2feaa0c55ad0159f86d081"


@pytest.mark.parametrize(
    ("line", "example"),
    [
        ("npx pkg", "pkg@VERSION"),
        ("npx -y @scope/pkg /tmp", "@scope/pkg@VERSION"),
        ("npx -y @scope/pkg@latest", "@scope/pkg@VERSION"),
        ("npx pkg@next", "pkg@VERSION"),
        ("npx pkg@^1.2.3", "pkg@VERSION"),
        ("npx pkg@1", "pkg@VERSION"),
        ("npx -y --package=pkg command", "pkg@VERSION"),
        ("npx -y -p pkg command", "pkg@VERSION"),
        ("npx --registry https://r.example pkg", "pkg@VERSION"),
        ("npx github:me/repo", "github:me/repo#COMMIT"),
        ("npx me/repo", "me/repo#COMMIT"),
        ("/usr/bin/npx pkg", "pkg@VERSION"),
        ("npx.cmd pkg", "pkg@VERSION"),
        ("bunx pkg", "pkg@VERSION"),
        ("npm exec pkg", "pkg@VERSION"),
        ("npm x pkg", "pkg@VERSION"),
        ("pnpm dlx pkg", "pkg@VERSION"),
        ("deno run -A --allow-env=HOME npm:@scope/pkg", "npm:@scope/pkg@VERSION"),
        ("deno run jsr:@scope/pkg@1", "jsr:@scope/pkg@VERSION"),
        ("uvx pkg", "pkg==VERSION"),
        ("uvx pkg@latest --flag", "pkg==VERSION"),
        ("uvx pkg>=1.0", "pkg==VERSION"),
        ("uvx --python 3.12 pkg[extra]", "pkg[extra]==VERSION"),
        ("uvx --from pkg command", "pkg==VERSION"),
        ("uvx --from git+https://github.com/a/b command", "git+https://github.com/a/b@COMMIT"),
        ("uvx --from git+ssh://git@host/a/b@main#subdirectory=c command", "git+ssh://git@host/a/b@COMMIT"),
        ("uvx -p3.12 pkg", "pkg==VERSION"),
        ("uvx --index https://i.example --from pkg command", "pkg==VERSION"),
        ("uvx pkg==1.*", "pkg==VERSION"),
        ("uv run --with mcp[cli] mcp run server.py", "mcp[cli]==VERSION"),
        ("uv run -w mcp -m server --with other", "mcp==VERSION"),
        ("uv --directory /srv/x run --extra dev --with=mcp>=1,<2 server.py", "mcp==VERSION"),
        ("pnpm --package=pkg dlx command", "pkg@VERSION"),
        ("npm exec -- pkg", "pkg@VERSION"),
        ("npx name@github:me/repo#main", "github:me/repo#COMMIT"),
        ("npx git@github.com:me/repo.git", "git@github.com:me/repo.git#COMMIT"),
        ("deno run --config deno.json npm:pkg", "npm:pkg@VERSION"),
        ("docker --context there run image", "image:VERSION"),
        ("uv tool run pkg", "pkg==VERSION"),
        ("pipx run pkg", "pkg==VERSION"),
        ("docker run -i --rm image", "image:VERSION"),
        ("docker run -i --rm -e KEY --name x mcp/image:latest arg", "mcp/image:VERSION"),
        ("docker run --rm -it --mount type=bind,src=/a,dst=/b reg:5000/a/b", "reg:5000/a/b:VERSION"),
        ("docker run -v/a:/b image", "image:VERSION"),
        ("podman run image", "image:VERSION"),
    ],
)
def test_a_package_without_a_fixed_version_is_found(line: str, example: str):
    [package] = fetched(line)
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
        "uvx --from 'pkg == 1.2.3' command",
        "uvx --from 'pkg===1.2.3; python_version>\"3\"' command",
        "uv run --with mcp[cli]==1.2.3 server.py",
        f"npx name@git+https://host/a.git#{SHA}",
        f"npx git@github.com:me/repo.git#{SHA}",
        f"npx git+ssh://git@host/a.git#{SHA}",
        "npx alias@npm:@scope/pkg@1.2.3",
        "cmd /c npx -y pkg@1.2.3",
    ],
)
def test_a_fixed_version_is_seen(line: str):
    [package] = fetched(line)
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
        "npx -p ./here command",
        "npx .\\\\here",
        "npx 'C:\\here'",
        "npx pkg-1.2.3.tgz",
        "npx https://host/pkg-1.2.3.tgz",
        "npx name@file:../here",
        "npx name@https://host/pkg-1.2.3.tgz",
        "uvx --from packages/here command",
        "uvx --from dist/pkg-1.0-py3-none-any.whl command",
        "uvx --from https://host/pkg-1.0.tar.gz?raw=1 command",
        "uvx --from 'pkg @ file:///srv/pkg' command",
        "uv --offline run --with mcp server.py",
        "uv run server.py --with mcp",
        "uv run --with-editable . --with ./here server.py",
        "deno run --cached-only npm:pkg",
        "env A=1",
        "env",
        "sh",
        "sh -c",
        "sh script.sh npx pkg",
        "sh -c 'npx --no-install pkg'",
        "sh -c 'npx -y pkg@$VERSION'",
        "sh -c 'npx -y `name`'",
        "sh -c 'npx -y pkg\"'",
        "sh -c 'echo \"a && npx pkg\"'",
        "cmd /c npx pkg@%VERSION%",
        "cmd npx pkg",
        "python server.py npx pkg",
    ],
)
def test_what_fetches_nothing_or_is_said_by_a_variable_is_left_alone(line: str):
    assert fetched(line) == []


@pytest.mark.parametrize(
    ("line", "unpinned"),
    [
        ("npx -p a@1.2.3 -p b command", ["b"]),
        ("npx -y --package=a --package b -c 'command x'", ["a", "b"]),
        ("yarn dlx -p a -p b command", ["a", "b"]),
        ("uvx --with mcp pkg==1.0", ["mcp"]),
        ("uvx --with mcp pkg", ["pkg", "mcp"]),
        ("uvx --from a --with 'b[x,y]>=1,<2,c==1.0,d' command", ["a", "b[x,y]>=1,<2", "d"]),
        ("uv run --with a --with ${B} --with ./here --with c==1 server.py", ["a"]),
        ("uv run --with a --with a server.py", ["a"]),
    ],
)
def test_each_of_several_packages_is_judged(line: str, unpinned: list[str]):
    assert [package.spec for package in fetched(line) if not package.is_pinned] == unpinned


@pytest.mark.parametrize(
    "line",
    [
        "env A=1 npx -y pkg",
        "/usr/bin/env -i -u HOME -C /tmp A=1 B= npx -y pkg",
        "nice -n 5 npx -y pkg",
        "nohup time -p npx -y pkg",
        "env A=1 sh -c 'npx -y pkg'",
        "sh -c 'npx -y pkg'",
        "bash -lc 'exec npx -y pkg'",
        "/bin/zsh -l -c 'A=1 npx -y pkg --flag'",
        "bash -euo pipefail -c 'npx -y pkg' name",
        "sh -c 'cd /srv && exec npx -y pkg 2>/dev/null'",
        "sh -c 'npx -y pkg; echo done'",
        "sh -c 'npx -y pkg|tee log'",
        "sh -c '(npx -y \"pkg\")'",
        "sh -c 'export A=1\nnpx -y pkg'",
        "sh -c 'if test -f x; then npx -y pkg; fi'",
        "sh -c \"bash -c 'npx -y pkg'\"",
        "cmd /c npx -y pkg",
        "cmd.exe /d /s /C 'npx -y pkg'",
        "cmd /c 'cd x && npx.cmd -y pkg'",
        "'C:\\Windows\\cmd.exe' /c npx -y pkg",
    ],
)
def test_what_other_programs_start_is_looked_at(line: str):
    [package] = fetched(line)
    assert (package.spec, package.is_pinned) == ("pkg", False)


def test_every_command_of_a_shell_line_is_looked_at():
    found = fetched("sh -c 'npx -y a && uvx b==1.0 || docker run c'")
    assert [(package.spec, package.is_pinned) for package in found] == [("a", False), ("b==1.0", True), ("c", False)]


def test_a_version_is_kept_apart_from_a_comment():
    [package] = fetched(f"sh -c 'npx -y github:me/repo#{SHA} # comment'")
    assert package.is_pinned


def fetched(line: str) -> list[Package]:
    command, *arguments = shlex.split(line)
    return fetched_packages(command, arguments)


WORD = st.text(max_size=12) | st.sampled_from(
    ["run", "tool", "x", "-e", "--", "-", "--from", "-p", "@", "a@", "--with", ",[", "-c", "/c", "env", "sh", "npx"]
)
PROGRAMS = ["npx", "uvx", "docker", "uv", "pipx", "bun", "deno", "env", "sh", "cmd", "nice", ""]


@given(st.sampled_from(PROGRAMS), st.lists(WORD, max_size=6))
def test_any_command_line_can_be_read(command: str, arguments: list[str]):
    assert all(package.spec for package in fetched_packages(command, arguments))


def test_a_program_behind_many_others_is_found():
    assert [package.spec for package in fetched_packages("env", ["env"] * 3000 + ["npx", "pkg"])] == ["pkg"]
