"""Recognizes what a server is for without starting it, with a table of well-known MCP servers.

Guarantees: the answer is a row of the table, the summary of the server's package, or None; of an entry, it repeats
only the name of the server. It guesses by words; a user can change the result with `move` and `describe`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NamedTuple, cast
from urllib.parse import urlsplit

from mcp_workbench.config.keys import URL_KEYS
from mcp_workbench.config.model import Launch, ServerConfig
from mcp_workbench.doctor.installed_packages import Manifest, manifest_of
from mcp_workbench.doctor.packages import fetched_packages

OTHER: Final = "other"
"""The toolbox of servers that no row of the table matches."""


class Service(NamedTuple):
    """A kind of server."""

    toolbox: str
    """The toolbox that `import` proposes for it."""
    does: str
    """What an agent can do with it, as a phrase that begins with a verb."""
    words: tuple[str, ...]
    """Lower-case words of its package, address, name or tools. The words of "web search" must follow each other."""


_TABLE: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "code": (
        ("read and write files", "filesystem, file system, files, file, directory"),
        ("work with Git repositories", "git"),
        ("manage repositories, issues and pull requests on GitHub", "github, githubcopilot"),
        ("manage projects, issues and merge requests on GitLab", "gitlab"),
        ("manage repositories and pull requests on Bitbucket", "bitbucket"),
        ("manage repositories and issues on Gitea", "gitea, forgejo"),
        ("find and edit symbols in code", "serena, language server, lsp, ast grep, symbol, symbols"),
        ("run commands on this machine", "desktop commander, shell, terminal, bash, commands"),
        ("look up the documentation of libraries", "context7, deepwiki, gitmcp, library docs"),
        ("look up the documentation of a cloud", "aws documentation, microsoft learn, microsoft docs"),
        ("scan code for defects and vulnerabilities", "semgrep, sonarqube, sonarcloud, snyk"),
        ("run code in a sandbox or notebook", "e2b, run python, code interpreter, code sandbox, jupyter"),
    ),
    "web": (
        (
            "search the web",
            "brave, tavily, exa, serper, serpapi, duckduckgo, ddg, kagi, searxng, web search, google search",
        ),
        ("search the web and answer questions with sources", "perplexity"),
        ("fetch web pages", "fetch, firecrawl, crawl4ai, crawl, scrape, scraper, brightdata, bright data, apify, jina"),
        ("look things up in Wikipedia", "wikipedia, wikidata"),
        ("find and read scientific papers", "arxiv, pubmed, semantic scholar, papers"),
    ),
    "browser": (
        (
            "open, read and operate web pages in a browser",
            "playwright, puppeteer, chrome devtools, browserbase, stagehand, selenium, browser use, browser, chrome",
        ),
    ),
    "databases": (
        ("query PostgreSQL databases", "postgres, postgresql, pg, timescale, neon"),
        ("query MySQL databases", "mysql, mariadb"),
        ("query SQLite databases", "sqlite, libsql, turso"),
        ("query data with DuckDB", "duckdb, motherduck"),
        ("query MongoDB databases", "mongodb, mongo"),
        ("read and write Redis", "redis"),
        ("manage Supabase projects and databases", "supabase"),
        ("query ClickHouse databases", "clickhouse"),
        ("query BigQuery datasets", "bigquery"),
        ("query Snowflake", "snowflake"),
        ("query Databricks", "databricks"),
        ("query graph databases", "neo4j, graph database"),
        ("search Elasticsearch indexes", "elasticsearch, opensearch"),
        ("store and search vectors", "qdrant, chroma, pinecone, weaviate, milvus"),
        ("read and edit tables in Airtable and the like", "airtable, baserow, nocodb"),
        ("query databases", "dbhub, sql, database, databases, mssql, oracle, tables, table, query"),
    ),
    "notes": (
        ("remember facts and find them again", "memory, mem0, knowledge graph, basic memory, remember"),
        ("read and edit pages in Notion", "notion"),
        ("read and edit notes in a personal knowledge base", "obsidian, logseq, roam"),
        ("read and write notes", "evernote, apple notes, joplin, notes, note"),
    ),
    "documents": (
        (
            "find, read and edit files in Google Drive",
            "gdrive, google drive, google docs, google sheets, google workspace",
        ),
        ("find, read and edit files in Microsoft 365", "onedrive, sharepoint, ms 365, microsoft 365"),
        ("find and read files in cloud storage", "dropbox"),
        ("read and edit pages in Confluence", "confluence"),
        ("read and convert documents", "markitdown, pandoc, pdf, docx, excel, xlsx, powerpoint, pptx, spreadsheet"),
    ),
    "messages": (
        ("read and send messages in Slack", "slack"),
        ("read and send messages in Discord", "discord"),
        ("read and send chat messages", "telegram, whatsapp, imessage"),
        ("read and send messages in Microsoft Teams", "teams"),
        ("read and send mail", "gmail, outlook, mail, email, imap, smtp, fastmail, resend, sendgrid, mailgun"),
        ("look up and plan events in a calendar", "calendar, gcal, caldav, google calendar, calendly"),
        ("make calls and send text messages", "twilio, zoom"),
    ),
    "projects": (
        ("manage issues and projects in Linear", "linear"),
        ("manage issues in Jira and pages in Confluence", "jira, atlassian"),
        ("manage tasks and projects", "asana, clickup, monday, basecamp, wrike"),
        ("manage boards and cards in Trello", "trello"),
        ("manage to-do lists", "todoist, ticktick, task master, taskmaster, todo"),
        ("manage work items and pipelines in Azure DevOps", "azure devops"),
    ),
    "cloud": (
        ("manage AWS resources", "aws, amazon, awslabs"),
        ("manage Azure resources", "azure"),
        ("manage Google Cloud resources", "gcp, google cloud, gcloud, cloud run, firebase"),
        ("manage Cloudflare resources", "cloudflare"),
        ("manage Kubernetes clusters", "kubernetes, k8s, kubectl, helm, argocd"),
        ("manage containers", "docker, podman, portainer"),
        ("manage infrastructure as code", "terraform, pulumi, opentofu, ansible"),
        ("deploy and manage web applications", "vercel, netlify, heroku, railway, render, digitalocean, hetzner"),
        ("run and inspect builds", "circleci, buildkite, jenkins, github actions"),
    ),
    "monitoring": (
        ("look into application errors", "sentry, rollbar, bugsnag"),
        (
            "query metrics, logs and traces",
            "grafana, prometheus, datadog, newrelic, new relic, honeycomb, axiom, splunk, loki, dynatrace",
        ),
        ("manage incidents and on-call schedules", "pagerduty, opsgenie, rootly, incident"),
        ("analyse how people use a product", "posthog, mixpanel, amplitude, google analytics"),
    ),
    "design": (
        ("read and edit designs", "figma, penpot, sketch, framer"),
        ("build 3D scenes and games", "blender, unity, unreal, godot"),
        ("create designs and interface components", "canva, shadcn, magicui"),
    ),
    "business": (
        ("look up and manage payments", "stripe, paypal, adyen, razorpay"),
        ("manage an online shop", "shopify, woocommerce"),
        ("manage contacts and deals", "hubspot, salesforce, pipedrive, attio, zoho"),
        ("answer customers and manage support tickets", "zendesk, intercom, freshdesk"),
        ("look up accounts and invoices", "quickbooks, xero, plaid"),
    ),
    "media": (
        ("find videos and read their transcripts", "youtube"),
        ("find and play music", "spotify"),
        ("generate and transcribe speech", "elevenlabs, minimax, tts, whisper"),
        ("generate images", "replicate, fal, everart, stability, dalle, image generation"),
        ("find and run machine learning models", "huggingface"),
        ("convert images, audio and video", "ffmpeg, imagemagick"),
    ),
    "utilities": (
        ("tell the time and convert time zones", "time, timezone"),
        ("calculate", "calculator, wolfram, wolframalpha, math"),
        ("look up the weather", "weather, openweather, accuweather"),
        ("find places and routes", "google maps, maps, mapbox, openstreetmap, geocode"),
        ("think through a problem step by step", "sequential thinking, sequentialthinking, think"),
        ("try out the features of the protocol", "server everything"),
    ),
    "automation": (
        ("run actions in connected apps", "zapier, n8n, pipedream, composio, ifttt, rube"),
        ("read and switch devices at home", "home assistant, homeassistant, hass, hue"),
    ),
}
"""By toolbox: what an agent can do with a server, and the words by which it is recognized."""

SERVICES: Final = tuple(
    Service(toolbox, does, tuple(words.split(", "))) for toolbox, rows in _TABLE.items() for does, words in rows
)


_SCRIPT: Final = r"\.(?:py|[cm]?[jt]s)$"
_TOOL_WORDS: Final = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+"
_TOOLS_NEEDED: Final = 2
"""Tools that must match the same service, unless the server has only one."""
_SHARE_NEEDED: Final = 3
"""One of this many tools must match it."""
_NAMES_LISTED: Final = 8


class Traits(NamedTuple):
    """The traits of a server by which it can be recognized."""

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    tools: tuple[str, ...] = ()
    """The names of its tools, if they are cached."""
    manifest: Manifest = Manifest()

    @classmethod
    def of_entry(cls, name: str, entry: Mapping[str, Any], tools: Iterable[str] = ()) -> Traits:
        """The traits of an entry as written in a file; a value of the wrong type reads as missing."""
        args: Any = entry.get("args")
        words = cast("list[Any]", args) if isinstance(args, list) else []
        url = next((_text(entry[key]) for key in URL_KEYS if key in entry), "")
        return cls(name, _text(entry.get("command")), tuple(map(_text, words)), url, tuple(tools))

    @classmethod
    def of_server(cls, server: ServerConfig, tools: Iterable[str] = ()) -> Traits:
        target = server.target
        if isinstance(target, Launch):
            return cls(server.name, target.command, tuple(target.args), tools=tuple(tools))
        return cls(server.name, url=target.url, tools=tuple(tools))

    def on_this_machine(self, environ: Mapping[str, str]) -> Traits:
        """These traits with the manifest of the server's package, if it is installed."""
        return self._replace(manifest=manifest_of(self.command, self.args, environ))


def recognize(traits: Traits) -> Service | None:
    """The service that a server provides; None if it is unknown.

    Its package and address outrank names that a person chose, and those outrank the names of its tools. If no row of
    the table matches, the summary of its package is the answer.
    """
    for text in _evidence(traits):
        if (service := _best(_words(text))) is not None:
            return service
    return _by_tools(traits.tools) or _by_summary(traits)


def summary(servers: Iterable[tuple[str, Service | None]]) -> str:
    """A description of a toolbox: what an agent can do with its servers, given as names with their services.

    It lists the names of servers that were not recognized.
    """
    pairs = list(servers)
    phrases = list(dict.fromkeys(service.does for _, service in pairs if service is not None))
    names = [name for name, service in pairs if service is None]
    listed = ", ".join(names[:_NAMES_LISTED]) + (
        f" and {len(names) - _NAMES_LISTED} more" * (len(names) > _NAMES_LISTED)
    )
    if names:
        phrases.append(f"use the tools of {listed}")
    text = "; ".join(phrases)
    return text[:1].upper() + text[1:]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _evidence(traits: Traits) -> Iterator[str]:
    """The texts by which a server may be recognized, the most reliable first."""
    yield from (package.spec for package in fetched_packages(traits.command, traits.args) if traits.command)
    for word in (traits.url, *traits.args):
        if re.match(r"https?://", word):
            yield from _address(word)
    yield traits.manifest.package
    yield traits.name
    yield PurePosixPath(traits.command).name
    for before, word in zip(("", *traits.args), traits.args, strict=False):
        if before == "-m" or re.search(_SCRIPT, word):
            yield " ".join(PurePosixPath(word).parts[-2:])


def _address(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:  # not an address; the reader of the configuration reports it
        return
    yield host.rpartition(".")[0]
    yield parts.path


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _best(words: Sequence[str]) -> Service | None:
    """The service with the longest matching word."""
    matches = [(len(word), service) for service in SERVICES for word in service.words if _has(words, word)]
    return max(matches, key=lambda match: match[0])[1] if matches else None


def _has(words: Sequence[str], word: str) -> bool:
    parts = word.split()
    joined = word.replace(" ", "")
    if joined in words:
        return True
    return any(list(words[start : start + len(parts)]) == parts for start in range(len(words) - len(parts) + 1))


def _by_tools(tools: Sequence[str]) -> Service | None:
    """The service that the names of most tools match."""
    votes: dict[Service, int] = {}
    for tool in tools:
        if (service := _best([word.lower() for word in re.findall(_TOOL_WORDS, tool)])) is not None:
            votes[service] = votes.get(service, 0) + 1
    if not votes:
        return None
    service, count = max(votes.items(), key=lambda item: item[1])
    is_enough = count >= min(_TOOLS_NEEDED, len(tools)) and count * _SHARE_NEEDED >= len(tools)
    return service if is_enough else None


def _by_summary(traits: Traits) -> Service | None:
    summary = traits.manifest.summary
    return Service(OTHER, f"use {traits.name} ({summary})", ()) if summary else None
