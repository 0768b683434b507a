"""Every number in the program, in one frozen object, each with its reason.

Nothing else in the package holds a timeout, a size or a count. Tests pass a `Limits`
with small values instead of waiting for the large ones.
"""

from __future__ import annotations

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds that the program keeps. Durations are seconds, sizes are bytes."""

    # -- opening a toolbox and starting its servers
    open_timeout_seconds: float = 20.0
    """An open answers with what is ready: hosts give up on a call after 60 s, people long before."""
    startup_timeout_seconds: float = 60.0
    """A first `npx` or `uvx` start downloads its package; beyond a minute it hangs."""
    probe_patience_seconds: float = 1.5
    """How long `server/discover` may stay unanswered before `initialize` is sent too: old servers
    that ignore unknown requests would otherwise cost their whole startup limit."""

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
    name_scan_bytes: int = 4096
    """How far into a definition that is too large its name is looked for."""
    schema_depth: int = 64
    """Nesting of one tool's definition: readers of schemas recurse."""
    list_inline_bytes: int = 256 * 1024
    """A longer list is read in a thread: on the event loop it would delay every other call."""
    refresh_wait_seconds: float = 2.0
    """How long an open waits for a list that changed, before it answers with the one it has."""
    relist_interval_seconds: float = 2.0
    """A storm of `list_changed` leads to at most one new listing in this time."""

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
    question_seconds: float = 600.0
    """How long a parked call waits for its client's answer: a person may be reading it."""
    handle_bytes: int = 24
    """Random bytes in the handle of a parked call: nobody guesses it."""
    audience_bytes: int = 8
    """Random bytes that tell one client of the process from another."""
    parked: int = 256
    """Calls of one client that wait for it; beyond it the one that waited longest is given up."""
    page_bytes: int = 2 * 1024 * 1024
    """A page of a list that several servers share: a fourth of the largest message."""
    question_rounds: int = 10
    """How often one call of a modern server may ask before it is given up: it could ask for ever."""
    turn_seconds: float = 2.0
    """How long a call that waits for a modern client keeps other calls from a server that can't tell which
    call it asks for. Questions of one call come within milliseconds; a person takes longer."""
    missed_notifications: int = 64
    """Progress and log messages of a call while its modern client is being asked: the last of them are kept."""
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
    uri_length: int = 8192
    """Characters in an URI that is remembered or subscribed to; browsers and servers agree on less."""
    template_bytes: int = 256 * 1024
    """Templates that are compared with an URI, together: 20 ms of the event loop."""
    capabilities_bytes: int = 64 * 1024
    """What a client may declare; the longest seen in use is under 1 KiB."""
    announce_interval_seconds: float = 1.0
    """A storm of changes is told a client at most once in this time, per kind of list."""

    # -- messages
    message_bytes: int = 8 * 1024 * 1024
    """One message: honest results exceed 1 MiB; checking and re-framing 8 MiB takes 43 ms."""
    write_buffer_bytes: int = 8 * 1024 * 1024
    """Unread output towards one peer before requests to it wait: one largest message."""
    greeting_bytes: int = 32 * 1024
    """The longest first answer that is written before the event loop runs: half an empty pipe."""
    read_chunk_bytes: int = 256 * 1024
    """One read from a pipe: four times the default pipe size of Linux."""
    repair_bytes: int = 1024 * 1024
    """The longest message in which broken surrogate pairs are repaired: 50 ms of regex at worst."""
    noise_lines: int = 1_000
    """Lines that are no messages, since the last good one: banners pass, a broken server is closed."""
    noise_bytes: int = 1024 * 1024
    """The same in bytes."""
    noise_sample_bytes: int = 200
    """How much of the first noise line is logged."""
    id_length: int = 1024
    """Characters in a request's id; it is repeated in the answer."""
    id_batch: int = 64
    """Ids drawn from the system's noise at once."""
    identifier_scan_bytes: int = 4096
    """How far into an unreadable message its id is looked for."""

    # -- processes
    stdin_eof_seconds: float = 1.0
    """Shutdown, first step: stdin is closed, a good server ends by itself."""
    terminate_seconds: float = 2.0
    """Second step: SIGTERM to the process group."""
    kill_seconds: float = 1.0
    """Third step: SIGKILL to the group, and the wait for the kernel to deliver it."""
    group_poll_seconds: float = 0.02
    """How often a process group that must be empty is looked at; no event tells it."""
    group_seconds: float = 0.5
    """What is left of a group whose leader ended well gets SIGTERM, and this long."""
    sweep_seconds: float = 0.5
    """The guardian's search for daemonised descendants; a scan takes milliseconds."""
    obituary_seconds: float = 0.5
    """After a server's output ended, how long its exit status and last words are waited for:
    calls on it fail within a second."""
    stderr_ring_bytes: int = 64 * 1024
    """The last of a server's stderr, kept for error messages."""
    stderr_tail_bytes: int = 2048
    """How much of it an error shows."""

    last_write_seconds: float = 1.0
    """How long a client that left may still read its last answers."""

    # -- configuration
    config_bytes: int = 4 * 1024 * 1024
    """A configuration file; the largest seen in use is under 100 KiB."""
    config_depth: int = 64
    """Nesting of the file; its own shape is six deep."""
    config_values: int = 50_000
    """Values in the file; it has thousands at most, and Python reads as many as this in a second."""
    open_timeout_most_seconds: float = 600.0
    """The largest `openTimeout`: no host waits longer for an answer."""
    name_length: int = 128
    """Characters in a toolbox or server name."""
    secret_length: int = 6
    """Shorter values are not redacted: `1` or `true` would black out every log line."""

    # -- what is shown
    names_shown: int = 20
    """Names listed in an error, when none is near."""
    nearest_candidates: int = 300
    """Names that are compared in search of the nearest: more would block the event loop."""
    nearest_shown: int = 3
    """Names that may have been meant, where several are offered."""
    joined_matches_shown: int = 5
    """Tools listed for one historical name that several had."""
    name_shown_length: int = 200
    """Characters of a hostile name that an error or a log line repeats."""
    joined_name_length: int = 128
    """The longest tool name that the protocol allows."""
    list_ttl_ms: int = 3_600_000
    """How long a modern client may keep a list that cannot change while we run."""
    dynamic_ttl_ms: int = 0
    """The same where the list can change: not at all without asking."""
    log_line_bytes: int = 4096
    """One log line: what a pipe takes at once."""
    log_value_length: int = 500
    """Characters of one value in a log line."""


DEFAULTS = Limits()
