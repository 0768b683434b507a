"""What a server is for is recognized from its package, address, name or tools, without starting it."""

from __future__ import annotations

import pytest

from mcp_workbench.doctor.recognition import SERVICES, Traits, recognize, summary

NPX, UVX, DOCKER = "npx", "uvx", "docker"


@pytest.mark.parametrize(
    ("traits", "toolbox", "word"),
    [
        (Traits("a", NPX, ("-y", "@modelcontextprotocol/server-filesystem", "/home/me/github")), "code", "filesystem"),
        (Traits("a", DOCKER, ("run", "-i", "--rm", "ghcr.io/github/github-mcp-server")), "code", "github"),
        (Traits("a", url="https://api.githubcopilot.com/mcp/"), "code", "github"),
        (Traits("a", NPX, ("mcp-remote", "https://mcp.linear.app/sse")), "projects", "linear"),
        (Traits("a", UVX, ("awslabs.aws-documentation-mcp-server@latest",)), "code", "aws documentation"),
        (Traits("a", UVX, ("awslabs.eks-mcp-server@latest",)), "cloud", "aws"),
        (Traits("a", NPX, ("-y", "@modelcontextprotocol/server-brave-search")), "web", "web search"),
        (Traits("a", NPX, ("@cocal/google-calendar-mcp",)), "messages", "calendar"),
        (Traits("a", NPX, ("@playwright/mcp@latest",)), "browser", "playwright"),
        (Traits("slack", "/opt/ours/run"), "messages", "slack"),
        (Traits("a", "/usr/local/bin/kubectl-mcp"), "cloud", "kubernetes"),
        (Traits("a", "python", ("-m", "mcp_server_git")), "code", "git"),
        (Traits("a", "node", ("/srv/notion-bridge/index.js",)), "notes", "notion"),
        # A package is a fact; a name may be anything.
        (Traits("github", UVX, ("mcp-server-fetch",)), "web", "fetch"),
        (Traits("a", "x", tools=("send_email", "searchEmail", "list_labels")), "messages", "mail"),
        (Traits("a", "x", tools=("query", "list_tables", "describe_table")), "databases", "sql"),
    ],
)
def test_a_server_is_recognized(traits: Traits, toolbox: str, word: str):
    service = recognize(traits)
    assert service is not None
    assert service.toolbox == toolbox
    assert word in service.words


@pytest.mark.parametrize(
    "traits",
    [
        Traits("mine", "some-command", ("--token", "github")),
        Traits("a", "python", ("run.py", "/home/me/git/notes")),
        Traits("a", url="https://[broken"),
        Traits("a", "x", tools=("echo", "send_email", "add", "sum")),
        Traits("", ""),
    ],
)
def test_a_server_that_nothing_tells_about_is_not_guessed(traits: Traits):
    assert recognize(traits) is None


def test_an_entry_of_any_shape_can_be_looked_at():
    assert Traits.of_entry("a", {"command": 5, "args": "x"}) == Traits("a")
    assert Traits.of_entry("a", {"args": ["b", None]}).args == ("b", "")
    assert Traits.of_entry("a", {"httpUrl": "https://x"}).url == "https://x"


def test_every_word_of_the_table_leads_to_its_row():
    words = [word for service in SERVICES for word in service.words]
    assert len(words) == len(set(words))
    for service in SERVICES:
        assert all(recognize(Traits(word)) == service for word in service.words)


def test_a_summary_says_what_one_can_do_and_names_what_was_not_recognized():
    git, files = recognize(Traits("git")), recognize(Traits("files"))
    assert summary([("a", files), ("b", git), ("c", git)]) == "Read and write files; work with Git repositories"
    assert summary([("a", git), ("x", None), ("y", None)]) == "Work with Git repositories; use the tools of x, y"
    many = summary([(str(number), None) for number in range(10)])
    assert many == "Use the tools of 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"
