"""The bounds that protect a user, in one frozen object, each with its reason.

Everything that keeps one of them gets it from the `Limits` that was passed to the workbench, the configuration or the
store; tests pass small ones instead of waiting. Weights, coefficients, display widths and bounds that nobody needs
to change are constants next to their use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds that the program keeps. Durations are seconds, sizes are bytes."""

    # -- opening a toolbox and starting its servers
    open_timeout_seconds: float = 20.0
    """An open answers with what is ready: hosts give up on a call after 60 s, people long before."""
    startup_timeout_seconds: float = 60.0
    """A first `npx` or `uvx` start downloads its package; beyond a minute it hangs."""
    probe_patience_seconds: float = 1.5
    """How long we wait for an answer to the greeting of the client's era (`initialize` or `server/discover`) before we
    send the other era's too. Without it, a server that ignores unknown requests would use up its whole startup
    limit."""

    start_progress_seconds: float = 5.0
    """How often a client that asked for progress hears that its server is still starting: hosts that wait
    for signs of life give up after 10 s at the earliest."""

    # -- servers that fail, and servers that nobody uses
    backoff_first_seconds: float = 1.0
    """After a failed start, until the next: enough for a file to be saved or a port to be free."""
    backoff_most_seconds: float = 60.0
    """It doubles up to this."""
    backoff_patience_seconds: float = 2.5
    """How long a caller waits for the next start; beyond it hears when that is."""
    breaker_failures: int = 5
    """Failures in a row after which a server rests: it is broken, and each start costs the machine."""
    rest_seconds: float = 30.0
    """Its first rest, after which it is tried once; each further failure makes the rest longer by this."""
    rest_most_seconds: float = 300.0
    """The longest rest. It never ends for good: a server that heals is found within five minutes."""
    steady_seconds: float = 30.0
    """A connection that lasted this long was a good one, and what failed before it is forgotten."""
    alive_seconds: float = 30.0
    """A server that was silent through a whole call is asked whether it lives, and has this long to say anything,
    or what was left of the call's time where its client gave up before."""
    idle_timeout_seconds: float = 0.0
    """When a server that nobody uses is stopped; 0 is never: a browser or a shell would lose its state."""

    # -- listing tools
    list_page_timeout_seconds: float = 15.0
    """A page is a local answer; a server that needs longer is stuck."""
    list_total_timeout_seconds: float = 60.0
    """All pages together: no catalog is worth more than a startup."""
    list_pages: int = 250
    """Endless cursors exist; 250 pages of 20 tools is the tool cap."""
    list_tools: int = 5_000
    """No model and no person can use more tools of one server."""
    list_bytes: int = 16 * 1024 * 1024
    """The definitions of one server, together."""
    schema_bytes: int = 256 * 1024
    """One tool's definition; a larger one would fill a context window by itself."""
    schema_depth: int = 64
    """Nesting of one tool's definition: readers of schemas recurse."""
    list_inline_bytes: int = 256 * 1024
    """A longer list is read and indexed in a thread: on the event loop it would delay every other call."""
    refresh_wait_seconds: float = 2.0
    """How long an open, or a call of an unknown name, waits for a new list before it uses the old one."""
    relist_interval_seconds: float = 2.0
    """A storm of `list_changed` causes at most one new listing in this time. No list has a shorter time to live. After
    an unknown name, a server is asked again no sooner than ten times the duration of its last list, up to this long."""

    # -- what is remembered of lists, and what of it is shown
    catalog_age_seconds: float = 86_400.0
    """How long a remembered list counts as current: servers are updated by the day, not by the minute."""
    open_budget_tokens: int = 8000
    """What the answer of an open may cost: a hundred tools as signatures, and a small part of any context window."""
    matches: int = 10
    """Tools that a search shows: the right one is among the first ten or needs another query."""

    # -- the store on disk
    store_busy_seconds: float = 0.25
    """How long the store is waited for while another process writes: that takes a millisecond, unless it is stuck."""
    store_rest_seconds: float = 2.0
    """How long a store that was locked or failed is done without, so that fifty servers do not wait for it in turn."""
    store_entry_bytes: int = 4 * 1024 * 1024
    """The largest list that is kept: 4,000 tools of 1 KiB, which take 10 ms to read."""
    store_bytes: int = 64 * 1024 * 1024
    """All lists together; those that were used longest ago go first."""
    store_entries: int = 2000
    """The same in number: fifty servers with all kinds of lists, for ten clients that declare different things."""

    # -- calls
    call_idle_timeout_seconds: float = 120.0
    """Silence of a server during a call; progress starts it again."""
    call_hard_timeout_seconds: float = 900.0
    """No call lasts longer, progress or not: every call has one outcome."""
    in_flight: int = 32
    """Calls under way at once on one server: local servers are small programs."""
    queued: int = 128
    """Calls that wait for a slot of one server; beyond it they are refused at once."""
    queue_wait_seconds: float = 30.0
    """A call that waited this long says `overloaded` instead of waiting on."""
    client_requests: int = 1000
    """Requests of one client that are being answered at once: six servers' queues. Each costs some kilobytes."""
    question_seconds: float = 600.0
    """How long a parked call waits for its client's answer: a person may be reading it."""
    parked: int = 256
    """Calls of one client that wait for it; beyond it the one that waited longest is given up."""
    page_bytes: int = 2 * 1024 * 1024
    """A page of a list that several servers share: a fourth of the largest message."""
    question_rounds: int = 10
    """How often one call of a modern server may ask before it is given up: it could ask for ever."""
    visit_seconds: float = 30.0
    """How long a call waits for the server to report that a person has visited a page. Most logins take less, and hosts
    give up on a call after 60 s."""
    turn_seconds: float = 2.0
    """How long a call that waits for a modern client keeps other calls from a server that can't tell which
    call it asks for. Questions of one call come within milliseconds; a person takes longer."""
    settle_seconds: float = 0.05
    """A moment for a server that asked at its start (for the roots) to take in the answer before its first call:
    npm's filesystem server needs up to 20 ms."""
    questions: int = 64
    """Questions of one server that its client has not answered yet; nobody reads more."""
    places: int = 16
    """Sets of capabilities that one client may declare, each with connections of its own: honest ones
    declare one, or one per kind of request."""
    subscriptions: int = 1000
    """Resources and tasks that one client watches at once: each is a request to a server."""
    known_uris: int = 10_000
    """Resources that servers named in results, remembered so that they can be read."""
    known_names: int = 20_000
    """Names of prompts that were given out and stay good, though a server renames them."""
    link_objects: int = 25_000
    """Objects in a result that is read for such names: that takes 20 ms; results beyond are passed on unread."""
    notices_per_second: float = 200.0
    """How many log messages of one server reach its client per second, and as many progress notifications; each KiB
    counts as one more. Nobody reads more. The rest is dropped and counted."""
    notices_burst: float = 1000.0
    """How many may come at once after a quiet time: a server may log its whole start-up."""
    uri_length: int = 8192
    """Characters in an URI that is remembered or subscribed to; browsers and servers agree on less."""
    announce_interval_seconds: float = 1.0
    """A storm of changes is told a client at most once in this time, per kind of list."""

    # -- messages
    message_bytes: int = 8 * 1024 * 1024
    """One message: honest results exceed 1 MiB; checking and re-framing 8 MiB takes 43 ms."""
    write_buffer_bytes: int = 8 * 1024 * 1024
    """Unread output towards one peer before requests to it wait: one largest message."""
    unread_notice_bytes: int = 256 * 1024
    """How many bytes of log messages and progress may wait unread before more are dropped: answers wait behind them."""
    noise_lines: int = 1_000
    """Lines that are no messages, since the last good one: banners pass, a broken server is closed."""

    # -- memory
    memory_bytes: int = 512 * 1024 * 1024
    """How much memory the process may use; `maxMemory` sets it. The process may exceed it by up to a quarter."""
    memory_base_bytes: int = 96 * 1024 * 1024
    """The part of it that the program itself uses, including the copies of one message of the largest size while it is
    passed on. The rest is for everything that waits."""

    # -- serving over HTTP
    http_connections: int = 512
    """Connections of clients at once: more than hosts of one machine need, and fewer where few files may be open."""
    http_head_bytes: int = 64 * 1024
    """The head of a request: browsers and servers agree on less."""
    http_head_seconds: float = 10.0
    """How long the head of a request may take; an honest one comes in one piece."""
    http_body_bytes: int = 4 * 1024 * 1024
    """The body of a request: what the official SDK accepts, and so what clients expect."""
    http_body_seconds: float = 30.0
    """How long it may take: the largest on a slow line."""
    http_write_seconds: float = 30.0
    """How long a client may read nothing of what it is sent before it is hung up on: what waits can be fetched."""
    http_keep_alive_seconds: float = 60.0
    """How long a connection without a request is kept: clients keep theirs for 5 to 60 s."""
    http_ending_seconds: float = 1.0
    """How long connections may take to end when the workbench does, after what was under way was answered."""
    http_sessions: int = 256
    """Handshake sessions at once, of all clients: each may have servers of its own."""
    http_owner_sessions: int = 64
    """The same with one token, so that one client can't take all of them."""
    http_left_seconds: float = 60.0
    """Idle for so long, a session makes room for a new one with its token where there is none: many clients leave
    theirs behind. One that comes back begins anew, as the protocol has it."""
    http_idle_seconds: float = 1800.0
    """How long a session without a request is kept, as by the official SDK, and what modern requests share; then its
    servers end."""
    http_events: int = 1024
    """Messages of a session that are kept for a client whose connection broke, the last of them."""
    http_event_bytes: int = 2 * 1024 * 1024
    """The same in bytes; one that is larger is kept alone."""
    http_notice_bytes: int = 512 * 1024
    """Notifications that wait on the stream of one modern request while its client reads slowly: thousands of them.
    All connections together can hold a quarter of a gigabyte so."""
    http_prime_seconds: float = 0.1
    """How long the head of a handshake answer waits for the answer itself, so that both leave in one piece; a call
    that takes longer is told first how a broken stream is resumed."""
    http_ping_seconds: float = 15.0
    """After so much silence a stream gets a comment, as by the official SDK: proxies close what is silent for 30 to
    60 s."""

    # -- remote servers
    connect_seconds: float = 10.0
    """Until a remote server's machine has taken a connection, TLS included; across the world that takes one second."""
    redirects: int = 3
    """Redirects within a server's own origin that are followed: one for a slash, one for a version."""
    resume_seconds: float = 1.0
    """How long after its end a stream is asked for again, where the server does not say."""
    mirrored_tools: int = 1000
    """Tools of a remote server of which it is known which parameters are headers too."""

    # -- processes
    drain_seconds: float = 0.5
    """Shutdown: calls under way may end by themselves for this long; most take less."""
    reload_poll_seconds: float = 1.0
    """How often the configuration file is looked at: a person who saves it waits no longer, and a look costs
    microseconds."""
    reload_settle_seconds: float = 0.25
    """A file that changed is read when it has been as it is for this long: editors write in several steps."""
    predecessor_seconds: float = 4.0
    """A server whose entry was changed is started when the one before it has ended, or after this long: that is
    what an end takes at most, and one that still works on a call may need minutes."""
    stdin_eof_seconds: float = 1.0
    """First step: stdin is closed, a good server ends by itself."""
    terminate_seconds: float = 2.0
    """Second step: SIGTERM to the process group."""
    kill_seconds: float = 1.0
    """Third step: SIGKILL to the group, and the wait for the kernel to deliver it."""
    sweep_seconds: float = 0.5
    """The guardian's search for daemonised descendants; a scan takes milliseconds."""
    obituary_seconds: float = 0.5
    """After a server's output ended, how long its exit status and last words are waited for:
    calls on it fail within a second."""
    stderr_ring_bytes: int = 64 * 1024
    """The last of a server's stderr, kept for error messages."""
    stderr_tail_bytes: int = 2048
    """How much of it an error shows."""
    stderr_line_length: int = 1000
    """Characters of such a line that are looked at; the log shows less."""

    # -- configuration
    config_bytes: int = 4 * 1024 * 1024
    """A configuration file; the largest seen in use is under 100 KiB."""
    config_depth: int = 64
    """Nesting of the file; its own shape is six deep."""
    config_values: int = 50_000
    """Values in the file; it has thousands at most, and Python reads as many as this in a second."""

    # -- what is shown

    # -- what a host reads at the start

    # -- signatures: schemas in one line

    # -- searching tools
    search_matches: int = 200_000
    """Words in tools that are looked at for that: 15 ms. What is left of a longer query only ranks what was found."""
    search_words: int = 128
    """Words of a query that are looked at."""
    search_text_length: int = 2000
    """Characters of a description that are searched: 300 words; what it is about stands at its beginning."""
    search_vocabulary: int = 500_000
    """Different words of all tools; thirty times those of 17,500 real ones."""

    # -- what `mcp-workbench doctor` looks at, and what `trust` keeps
    trial_tries: int = 30
    """How often a server is started to find the variables that it needs: enough to find three among two hundred."""
    trial_seconds: float = 120.0
    """How long that may take in all, after the first try."""
    trusted_files: int = 1000
    """Projects that are trusted at once; those that were trusted longest ago go first."""

    # -- the record of what a workbench does
    record_flush_seconds: float = 1.0
    """How long after the first event they are written: people look at seconds, and a write costs a thread a moment."""
    record_end_seconds: float = 1.0
    """How long the end of a process waits for its last events to be written: a fifth of what it may take in all."""
    record_batch_calls: int = 200
    """Calls that have a row each, of one write; those beyond are counted. Agents make a few a second."""
    record_pending: int = 5000
    """Lines and openings that wait to be written; of those beyond it is told how many there were."""
    record_calls: int = 20_000
    """Calls that are kept, of all workbenches: weeks of an agent's work, and enough for a 95th percentile."""
    record_calls_bytes: int = 16 * 1024 * 1024
    """Their size, which matters where arguments and results are kept."""
    record_lines: int = 5000
    """Lines of logs that are kept."""
    record_lines_bytes: int = 2 * 1024 * 1024
    """Their size: most have a hundred bytes."""
    record_runs: int = 50
    """Workbenches that ended and are still known."""
    record_tools: int = 2000
    """Tools whose calls are counted, of one workbench; those that are called least are forgotten."""

    # -- logging in to remote servers
    login_wait_seconds: float = 300.0
    """How long a person has to log in, in the browser: a password, a second factor and a consent."""
    login_http_seconds: float = 30.0
    """Each request to an authorization server; it is a small one."""
    login_body_bytes: int = 256 * 1024
    """Its answer: documents and tokens of a few KiB."""
    login_margin_seconds: float = 60.0
    """So long before its end a token is renewed, so that no call meets the end on its way."""
    login_lock_seconds: float = 45.0
    """How long a process waits while another one renews the same login: a request and a write."""
    login_request_bytes: int = 64 * 1024
    """What a browser sends when it comes back: one line with a code, and headers."""
    login_browser_seconds: float = 10.0
    """How long one connection of a browser may take for that."""

    def bounded(self, bounds: Mapping[str, Any]) -> Limits:
        """The same with some of them changed, as a configuration says."""
        return msgspec.structs.replace(self, **bounds) if bounds else self


DEFAULTS = Limits()
