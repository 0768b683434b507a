"""Well-known MCP servers and the words that give them away, as data: what one can do with each, and in which toolbox.

A service is added here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

OTHER: Final = "other"
"""The toolbox of servers that are in no row of the table."""


class Service(NamedTuple):
    """A kind of server."""

    toolbox: str
    """The toolbox that `import` proposes for it."""
    does: str
    """What an agent can do with it: a phrase that begins with a verb."""
    words: tuple[str, ...]
    """Lower-case words in its package, address, name or tools. In "web search" both must stand there in this order."""


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
"""By toolbox: what one can do with a server, and the words that tell."""

SERVICES: Final = tuple(
    Service(toolbox, does, tuple(words.split(", "))) for toolbox, rows in _TABLE.items() for does, words in rows
)
