"""The bounds that protect a user, in one frozen object, each with its reason.

Code reads a bound from the `Limits` that the workbench, the configuration or the store was given, so tests can pass
small ones instead of waiting. Weights, coefficients, display widths and bounds that nobody needs to change are
constants next to their use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of the program. Durations are in seconds, sizes in bytes."""

    # -- opening a toolbox and starting its servers
    open_timeout_seconds: float = 20.0
    """When the time is up, `open_toolbox` answers with the servers that are ready. Hosts give up on a call after 60 s,
    people much sooner."""
    startup_timeout_seconds: float = 60.0
    """A first start with `npx` or `uvx` downloads the package. A server that takes longer than a minute hangs."""
    probe_patience_seconds: float = 1.5
    """How long the workbench waits for an answer to the greeting of the client's era (`initialize` or
    `server/discover`) before it also sends that of the other era. Without this, a server that ignores unknown requests
    would use up its whole startup timeout."""

    start_progress_seconds: float = 5.0
    """How often a client that requested progress gets the message that its server is still starting. Hosts that wait
    for signs of life give up after 10 s at the earliest."""

    # -- failing and unused servers
    backoff_first_seconds: float = 1.0
    """The pause after a failed start: enough to save a file or free a port."""
    backoff_most_seconds: float = 60.0
    """The pause doubles up to this. With five failures before a rest it reaches 8 s."""
    backoff_patience_seconds: float = 2.5
    """How long a caller waits for the next start. If that is further away, the caller gets an error with the time."""
    breaker_failures: int = 5
    """Failures in a row after which a server rests. It is probably broken, and each start costs resources."""
    rest_seconds: float = 30.0
    """The first rest. One start follows; each further failure makes the rest longer by this."""
    rest_most_seconds: float = 300.0
    """The longest rest. The workbench never gives up, so it notices a repaired server within five minutes."""
    steady_seconds: float = 30.0
    """A connection that lasted this long was healthy: failures before it no longer count."""
    alive_seconds: float = 30.0
    """How long a server that was silent during a whole call has to answer a probe. If the client cancelled the call,
    the server has the rest of the call's time, if that is longer."""
    idle_timeout_seconds: float = 0.0
    """When an unused server is stopped. 0 means never: a browser or a shell would lose its state."""

    # -- listing tools
    list_page_timeout_seconds: float = 15.0
    """Listing a page needs no network. A server that takes longer is stuck."""
    list_total_timeout_seconds: float = 60.0
    """All pages together: as long as a start may take."""
    list_pages: int = 250
    """Some cursors never end. 250 pages of 20 tools reach the limit on tools."""
    list_tools: int = 5_000
    """No model and no person can use more tools of one server."""
    list_bytes: int = 16 * 1024 * 1024
    """All definitions of one server."""
    schema_bytes: int = 256 * 1024
    """The definition of one tool. A larger one would fill a context window on its own."""
    schema_depth: int = 64
    """The nesting of one tool's definition. Programs that read schemas recurse."""
    list_inline_bytes: int = 256 * 1024
    """A longer list is read and indexed in a thread. On the event loop it would delay every other call."""
    refresh_wait_seconds: float = 2.0
    """How long an open, or a call of an unknown name, waits for a new list before it uses the old one."""
    relist_interval_seconds: float = 2.0
    """However many `list_changed` notifications arrive, the workbench lists at most once per interval, and it never
    caches a list for less. After a call of an unknown name, it waits ten times as long as the last listing took before
    it lists again, but never longer than this interval."""

    # -- cached lists, and answers from them
    catalog_age_seconds: float = 86_400.0
    """How long a cached list counts as current. Servers are updated by the day, not by the minute."""
    open_budget_tokens: int = 8000
    """The size of an `open_toolbox` answer: enough for the signatures of a hundred tools, and a small part of any
    context window."""
    matches: int = 10
    """Tools that a search shows. If the right one is not among the first ten, a different query is needed."""

    # -- the catalog file
    store_busy_seconds: float = 0.25
    """How long the workbench waits while another process writes to the catalog. A write takes a millisecond, unless the
    process is stuck."""
    store_rest_seconds: float = 2.0
    """After the catalog was locked or failed, the workbench works without it for this long, so that fifty servers do
    not wait for it in turn."""
    store_entry_bytes: int = 4 * 1024 * 1024
    """The largest list that is stored: 4,000 tools of 1 KiB, which take 10 ms to read."""
    store_bytes: int = 64 * 1024 * 1024
    """All lists together. The least recently used ones are removed first."""
    store_entries: int = 2000
    """The number of lists: enough for fifty servers with all kinds of lists and ten clients with different
    capabilities."""

    # -- calls
    call_idle_timeout_seconds: float = 120.0
    """How long a server may be silent during a call. Progress restarts the timer."""
    call_hard_timeout_seconds: float = 900.0
    """How long a call may last after it was sent, with or without progress, so that every call has an outcome."""
    in_flight: int = 32
    """Calls under way at once on one server. Local servers are small programs."""
    queued: int = 128
    """Calls that wait for a slot of one server. Further calls are refused at once."""
    queue_wait_seconds: float = 30.0
    """How long a call waits for a slot. Then it fails with `overloaded`."""
    client_requests: int = 1000
    """Requests of one client that are handled at once: the queues of six servers. Each takes a few kilobytes."""
    question_seconds: float = 600.0
    """How long a parked call waits for its client's answer. A person may be reading the question."""
    parked: int = 256
    """Calls of one client that are parked while they wait for its answers. Beyond that, the one that has waited longest
    is cancelled."""
    page_bytes: int = 2 * 1024 * 1024
    """A page of a list that several servers share: a quarter of the largest message."""
    question_rounds: int = 10
    """How often one call of a modern server may ask before it fails. Without this, a server could ask forever."""
    visit_seconds: float = 30.0
    """How long a call waits for the server to report that a person has visited a page. Most logins take less, and hosts
    give up on a call after 60 s."""
    turn_seconds: float = 2.0
    """Some servers can't say which call a question belongs to. While one call on such a server waits for a modern
    client's answer, that client's other calls to the server wait this long. Questions of one call come within
    milliseconds; a person takes longer to answer."""
    settle_seconds: float = 0.05
    """If a server asked for the roots at its start, it gets this long to process the answer before its first call. The
    filesystem server from npm needs up to 20 ms."""
    questions: int = 64
    """Unanswered questions of one server to one client. Nobody reads more."""
    places: int = 16
    """Sets of capabilities that one client may declare; each has its own connections. A well-behaved client declares
    one set, or one per kind of request."""
    subscriptions: int = 1000
    """Resources and tasks that one client watches at once. Each is a request to a server."""
    known_uris: int = 10_000
    """Resource URIs from results that are kept, so that clients can read them."""
    known_names: int = 20_000
    """Prompt names that stay valid after a client has seen them, even if the server renames the prompts."""
    link_objects: int = 25_000
    """Objects in a result that is searched for such URIs, which takes 20 ms. A larger result is passed on without being
    searched."""
    notices_per_second: float = 200.0
    """How many log messages of one server reach its client per second; the same limit applies separately to progress
    notifications. Each KiB of a message counts as one more. The rest is dropped and counted."""
    notices_burst: float = 1000.0
    """How many may arrive at once after a quiet period. A server may log its whole startup."""
    uri_length: int = 8192
    """Characters of a URI that is kept or subscribed to. Browsers and servers accept fewer."""
    announce_interval_seconds: float = 1.0
    """However often a list changes, a client is notified at most once in this time per kind of list."""

    # -- messages
    message_bytes: int = 8 * 1024 * 1024
    """One message. Real results exceed 1 MiB; checking and reframing 8 MiB takes 43 ms."""
    write_buffer_bytes: int = 8 * 1024 * 1024
    """How much output a peer may leave unread before requests to it have to wait: one message of the largest size."""
    unread_notice_bytes: int = 256 * 1024
    """Unread log messages and progress before more are dropped. Answers wait behind them."""
    noise_lines: int = 1_000
    """Lines on stdout that are not messages, since the last valid message. Banners pass; a broken server is closed."""

    # -- memory
    memory_bytes: int = 512 * 1024 * 1024
    """How much memory the process may use; `maxMemory` sets it. The process may exceed it by up to a quarter."""
    memory_base_bytes: int = 96 * 1024 * 1024
    """What the program itself uses, including the copies of one message of the largest size while it is passed on. The
    rest is for everything that waits."""

    # -- serving over HTTP
    http_connections: int = 512
    """Client connections at once, which is more than the hosts of one machine need. Fewer if the process may open few
    files."""
    http_head_bytes: int = 64 * 1024
    """The head of a request. Browsers and servers accept less."""
    http_head_seconds: float = 10.0
    """How long the head of a request may take. Normally it arrives in one piece."""
    http_body_bytes: int = 4 * 1024 * 1024
    """The body of a request. The official SDK accepts as much, so clients expect it."""
    http_body_seconds: float = 30.0
    """How long the body may take: enough for the largest one over a slow connection."""
    http_write_seconds: float = 30.0
    """How long a client may read nothing before the workbench closes its connection. It can fetch what it missed."""
    http_keep_alive_seconds: float = 60.0
    """How long a connection without a request stays open. Clients keep theirs for 5 to 60 s."""
    http_ending_seconds: float = 1.0
    """How long connections may take to close at shutdown, after the calls under way were answered."""
    http_sessions: int = 256
    """Handshake sessions at once, of all clients. Each may have its own servers."""
    http_owner_sessions: int = 64
    """The same for one token, so that one client can't take all of them."""
    http_left_seconds: float = 60.0
    """If no session is free, a new one replaces the longest-idle session of the same token, provided that it has been
    idle for at least this long. Many clients never end their sessions. If the client of the replaced one returns, it
    starts a new session, as the protocol says."""
    http_idle_seconds: float = 1800.0
    """How long a session without a request is kept, as in the official SDK, and how long modern requests keep their
    servers. Then the servers end."""
    http_events: int = 1024
    """Messages of a session that are kept for a client whose connection broke."""
    http_event_bytes: int = 2 * 1024 * 1024
    """The same in bytes. A larger message is kept alone."""
    http_notice_bytes: int = 512 * 1024
    """Notifications that wait on the stream of one modern request while its client reads slowly: thousands of them. All
    connections together can hold a quarter of a gigabyte in this way."""
    http_prime_seconds: float = 0.1
    """How long the head of a handshake response waits for the answer, so that both are sent in one piece. If a call
    takes longer, the client first gets the event id to resume from."""
    http_ping_seconds: float = 15.0
    """A silent stream gets a comment this often, as in the official SDK. Proxies close streams that are silent for 30
    to 60 s."""

    # -- remote servers
    connect_seconds: float = 10.0
    """How long connecting to a remote server may take, TLS included. Across the world it takes one second."""
    redirects: int = 3
    """Redirects within a server's own origin that are followed: one for a slash, one for a version, and one to
    spare."""
    resume_seconds: float = 1.0
    """How long after a stream ended the workbench resumes it, if the server does not say."""
    mirrored_tools: int = 1000
    """Tools of a remote server whose header parameters the workbench knows."""

    # -- processes
    drain_seconds: float = 0.5
    """Before a shutdown, calls under way may finish for this long. Most take less."""
    reload_poll_seconds: float = 1.0
    """How often the configuration file is checked. A person who saves it waits no longer, and a check takes
    microseconds."""
    reload_settle_seconds: float = 0.25
    """A changed file is read once it has been unchanged for this long, because editors write in several steps."""
    predecessor_seconds: float = 4.0
    """After a server's entry changed, the new process waits this long for the old one to end. Ending takes no longer,
    unless a call is still under way."""
    stdin_eof_seconds: float = 1.0
    """First step: stdin is closed. A well-behaved server exits."""
    terminate_seconds: float = 2.0
    """Second step: SIGTERM to the process group."""
    kill_seconds: float = 1.0
    """Third step: SIGKILL to the process group, and waiting until the kernel has delivered it."""
    sweep_seconds: float = 0.5
    """How long the guardian, the process that cleans up after a killed workbench, searches for daemons that servers
    started. A scan takes milliseconds."""
    obituary_seconds: float = 0.5
    """After a server's output ended, how long the workbench waits for its exit status and last words. Calls on it fail
    within a second."""
    stderr_ring_bytes: int = 64 * 1024
    """The end of a server's stderr that is kept for error messages."""
    stderr_tail_bytes: int = 2048
    """How much of it an error shows."""
    stderr_line_length: int = 1000
    """Characters of such a line that are read. The log shows fewer."""

    # -- configuration
    config_bytes: int = 4 * 1024 * 1024
    """A configuration file. The largest in real use is under 100 KiB."""
    config_depth: int = 64
    """The nesting of the file. A valid file has six levels."""
    config_values: int = 50_000
    """Values in the file. Real files have thousands at most, and reading this many takes Python a second."""

    # -- searching tools
    search_matches: int = 200_000
    """Occurrences of the query's words in tools that are read: 15 ms. The remaining words of a longer query only rank
    the tools that were found."""
    search_words: int = 128
    """Words of a query that are used."""
    search_text_length: int = 2000
    """Characters of a description that are searched: 300 words. Descriptions begin with what matters."""
    search_vocabulary: int = 500_000
    """Distinct words of all tools: thirty times those of 17,500 real tools."""

    # -- doctor and trust
    trial_tries: int = 30
    """How often a server is started to find the variables that it needs: enough to find three among two hundred."""
    trial_seconds: float = 120.0
    """How long that may take in all, after the first try."""
    trusted_files: int = 1000
    """Trusted projects. Beyond this, those that were trusted longest ago are removed."""

    # -- the record
    record_flush_seconds: float = 1.0
    """How long after the first event a batch is written. People look at seconds, and a write keeps a thread busy only
    briefly."""
    record_end_seconds: float = 1.0
    """How long a process waits at its end for its last events to be written: a fifth of the time that a shutdown may
    take."""
    record_batch_calls: int = 200
    """Calls that get their own row in one write. Calls beyond that are only counted. Agents make a few a second."""
    record_pending: int = 5000
    """Lines and openings that wait to be written. The rest is counted."""
    record_calls: int = 20_000
    """Calls of all workbenches that are kept: weeks of an agent's work, and enough for a 95th percentile."""
    record_calls_bytes: int = 16 * 1024 * 1024
    """Their size, which matters if arguments and results are recorded."""
    record_lines: int = 5000
    """Log lines that are kept."""
    record_lines_bytes: int = 2 * 1024 * 1024
    """Their size. Most have a hundred bytes."""
    record_runs: int = 50
    """Workbenches that are kept after they ended."""
    record_tools: int = 2000
    """Tools of one workbench whose calls are counted. The least used ones are dropped."""

    # -- logging in to remote servers
    login_wait_seconds: float = 300.0
    """How long a person has to log in with the browser: a password, a second factor and a consent."""
    login_http_seconds: float = 30.0
    """Each request to an authorization server. They are small."""
    login_body_bytes: int = 256 * 1024
    """The response of an authorization server: documents and tokens of a few KiB."""
    login_margin_seconds: float = 60.0
    """How long before its expiry a token is renewed, so that it does not expire during a call."""
    login_lock_seconds: float = 45.0
    """How long a process waits while another one renews the same login: a request and a write."""
    login_request_bytes: int = 64 * 1024
    """What a browser sends when it returns from a login: one line with a code, and headers."""
    login_browser_seconds: float = 10.0
    """How long one connection of a browser may take for that."""

    def bounded(self, bounds: Mapping[str, Any]) -> Limits:
        """These limits with the ones replaced that a configuration sets."""
        return msgspec.structs.replace(self, **bounds) if bounds else self


DEFAULTS = Limits()
