"""Every number in the program, in one frozen object, each with its reason.

Nothing else in the package holds a timeout, a size or a count. Tests pass a `Limits`
with small values instead of waiting for the large ones.
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

    progress_step: float = 0.001
    """How much progress we report each time: hundreds of them are less than a server's first."""
    start_progress_seconds: float = 5.0
    """How often a client that asked for progress hears that its server is still starting: hosts that wait
    for signs of life give up after 10 s at the earliest."""

    # -- servers that fail, and servers that nobody uses
    backoff_first_seconds: float = 1.0
    """After a failed start, until the next: enough for a file to be saved or a port to be free."""
    backoff_most_seconds: float = 60.0
    """It doubles up to this."""
    backoff_jitter: float = 0.2
    """It is longer or shorter by up to this part, so that servers that failed together do not start together."""
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
    name_scan_bytes: int = 4096
    """How far into a definition that is too large its name is looked for."""
    schema_depth: int = 64
    """Nesting of one tool's definition: readers of schemas recurse."""
    pattern_length: int = 8192
    """Characters of the regular expressions in an output schema, each counted once: to check so many takes 50 ms."""
    output_schema_nodes: int = 2_000
    """For handshake clients, the workbench checks output schemas that have references or patterns, up to this many
    objects and lists (4 ms). If a tool's output schema is larger, they get the tool without it. The largest seen in use
    have a few hundred."""
    repaired_items: int = 100
    """Items of a list inside a definition, such as its icons, that are repaired one by one: no honest one is longer. A
    longer list that clients refuse is not repaired."""
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
    catalog_age_most_seconds: float = 31_536_000.0
    """The largest `catalog.maxAge`: a year; more is a number of milliseconds."""
    open_budget_tokens: int = 8000
    """What the answer of an open may cost: a hundred tools as signatures, and a small part of any context window."""
    open_budget_least_tokens: int = 500
    """The smallest `openBudget`: what is said beside the tools must fit."""
    open_budget_most_tokens: int = 1_000_000
    """The largest: the largest context windows."""
    instructions_length: int = 4000
    """Characters of a server's instructions that are kept: two pages, which is enough for nearly all servers."""
    instructions_least_length: int = 120
    """The shortest length that instructions are cut to before whole servers are left out: a sentence or two."""
    mark_bytes: int = 8
    """Bytes of the mark that stands for a secret in a remembered list: a server has a few, so none has another's."""
    misfits: int = 20
    """Tools that are passed over because they are too large for what is left of an answer, before it ends."""
    revalidations: int = 4
    """Servers that are started at once only to check what is remembered of them: nobody waits for them."""
    refreshed_at_once: int = 8
    """Servers that `mcp-workbench refresh` starts at once: each is a program that loads."""
    searches_tried: int = 20
    """Searches of which `mcp-workbench tokens` takes the mean."""
    matches: int = 10
    """Tools that a search shows: the right one is among the first ten or needs another query."""
    matches_most: int = 50
    """The largest `limit` of a search."""
    search_budget_tokens: int = 1000
    """The most tokens that the answer of a search may have: enough for the signatures of the best tools and the first
    sentences of the others."""
    search_signatures: int = 5
    """How many tools a search shows with their signatures: four out of five needed tools are among them."""
    also_in_shown: int = 3
    """Other servers with the same tool that a search names; the rest are counted."""
    index_inline_tools: int = 100
    """Up to this many tools are indexed for search on the event loop (about 10 ms). More tools, or tools larger than
    `list_inline_bytes` together, are indexed in a thread."""
    query_length: int = 1000
    """Characters of a query that are looked at; a longer one is text that was pasted."""
    error_shown_length: int = 300
    """Characters of a server's failure that an answer shows, where many failed: its first sentence or two."""
    error_shown_least_length: int = 80
    """The same where even that is too much."""
    asked_tools: int = 100
    """Names in `tools` of one open: more is the whole toolbox."""

    # -- the store on disk
    store_busy_seconds: float = 0.25
    """How long the store is waited for while another process writes: that takes a millisecond, unless it is stuck."""
    store_rest_seconds: float = 2.0
    """How long a store that was locked or failed is done without, so that fifty servers do not wait for it in turn."""
    store_tries: int = 3
    """How often one process makes a damaged store or key anew; beyond it the disk is at fault."""
    store_entry_bytes: int = 4 * 1024 * 1024
    """The largest list that is kept: 4,000 tools of 1 KiB, which take 10 ms to read."""
    store_bytes: int = 64 * 1024 * 1024
    """All lists together; those that were used longest ago go first."""
    store_entries: int = 2000
    """The same in number: fifty servers with all kinds of lists, for ten clients that declare different things."""
    store_unused_seconds: float = 90 * 86_400.0
    """A list that nobody used for a quarter of a year is of a configuration that is gone."""
    store_prune_every: int = 32
    """New lists after which these bounds are looked at again: with 2,000 lists that takes 10 ms."""
    store_touch_seconds: float = 7 * 86_400.0
    """How exactly it is known when a list was used: to note it is a write, which an open should not need."""
    store_declared: int = 16
    """Sets of capabilities that are remembered: as many as one client may declare."""
    store_cache_bytes: int = 256 * 1024
    """Memory for pages of the file that were read: the system keeps them too."""
    store_head_bytes: int = 4096
    """How much of a damaged file is read to tell whether it was ours: its first page, which names the tables."""
    store_key_bytes: int = 32
    """The key of the stamps, as long as what it makes."""

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
    overloaded_retry_seconds: float = 5.0
    """When a call that was refused for that may be worth another try: a call takes seconds."""
    client_requests: int = 1000
    """Requests of one client that are being answered at once: six servers' queues. Each costs some kilobytes."""
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
    visit_seconds: float = 30.0
    """How long a call waits for the server to report that a person has visited a page. Most logins take less, and hosts
    give up on a call after 60 s."""
    turn_seconds: float = 2.0
    """How long a call that waits for a modern client keeps other calls from a server that can't tell which
    call it asks for. Questions of one call come within milliseconds; a person takes longer."""
    missed_notifications: int = 64
    """Progress and log messages of a call while its modern client is being asked: the last of them are kept."""
    missed_bytes: int = 4096
    """The size of each; a larger one is dropped, so that a call that waits for its client stays small."""
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
    refusal_data_bytes: int = 16 * 1024
    """Data of a server's error that is searched for secrets and passed on: 20 ms at worst."""
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
    unread_notice_bytes: int = 256 * 1024
    """How many bytes of log messages and progress may wait unread before more are dropped: answers wait behind them."""
    greeting_bytes: int = 32 * 1024
    """The longest first answer that is written before the event loop runs: half an empty pipe."""
    read_chunk_bytes: int = 256 * 1024
    """One read from a pipe: four times the default pipe size of Linux."""
    repair_bytes: int = 256 * 1024
    """The longest message in which broken surrogate pairs are repaired: 90 ms of regex at worst."""
    cut_depth: int = 128
    """Where an item of a list that is nested too deep to be read is cut: twice what is accepted, so it is withheld."""
    cut_bytes: int = 1024 * 1024
    """The longest list that is cut so: ten times one that any client could use."""
    cut_brackets: int = 60_000
    """Brackets that are looked at for it, those in a row as one: 60 ms."""
    noise_lines: int = 1_000
    """Lines that are no messages, since the last good one: banners pass, a broken server is closed."""
    noise_bytes: int = 1024 * 1024
    """The same in bytes."""
    noise_sample_bytes: int = 200
    """How much of the first noise line is logged."""
    batch_bytes: int = 32 * 1024 * 1024
    """The answers to one batch, which wait for each other: four of the largest messages."""
    id_length: int = 1024
    """Characters in a request's id; it is repeated in the answer."""
    id_batch: int = 64
    """Ids drawn from the system's noise at once."""
    identifier_scan_bytes: int = 4096
    """How far into an unreadable message its id is looked for."""

    # -- memory
    memory_bytes: int = 512 * 1024 * 1024
    """How much memory the process may use; `maxMemory` sets it. The process may exceed it by up to a quarter."""
    memory_base_bytes: int = 96 * 1024 * 1024
    """The part of it that the program itself uses, including the copies of one message of the largest size while it is
    passed on. The rest is for everything that waits."""
    memory_refuse_share: float = 0.6
    """When this part of the rest is held, clients that hold more than a fair share get no new calls."""
    memory_shed_share: float = 0.75
    """At this part, kept events are dropped and the calls of the largest client are cancelled."""
    memory_close_share: float = 0.9
    """At this part, the connections that hold the most are closed."""
    memory_client_share: float = 0.25
    """The part that one client may hold. That is room for twelve answers of the largest size, so eight at once can
    safely wait to be read."""
    memory_relief: float = 0.9
    """Each of these levels ends below this part of its threshold, so that it does not flap with every message."""
    memory_review_seconds: float = 0.1
    """How often the workbench checks who holds too much while it is under pressure: only a few of the largest messages
    can arrive in that time."""
    memory_small_bytes: int = 16 * 1024
    """Requests up to this size are not counted while they are answered: a thousand of them are a fair share."""

    # -- serving over HTTP
    http_port: int = 8300
    """Where `serve --http` listens unless it is told otherwise: free on most machines, and no other MCP program's."""
    http_connections: int = 512
    """Connections of clients at once: more than hosts of one machine need, and fewer where few files may be open."""
    http_files: int = 4096
    """Files that the process may have open then, if the system lets it. A fourth of what it lets is for connections,
    as many again for those that are being refused, and half for servers."""
    http_read_bytes: int = 16 * 1024
    """Read from a connection in one turn: its chunks may have a byte each, and thousands of them take long."""
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
    http_trim_seconds: float = 1.0
    """How long after the end of a session freed memory is returned to the system, once for all sessions that end in
    that time."""
    http_session_bytes: int = 24
    """Random bytes in the id of a session: nobody guesses it."""
    http_events: int = 1024
    """Messages of a session that are kept for a client whose connection broke, the last of them."""
    http_event_bytes: int = 2 * 1024 * 1024
    """The same in bytes; one that is larger is kept alone."""
    http_held: int = 64
    """Messages that belong to no request, while a client has no stream open for them: the last of them are kept."""
    http_notice_bytes: int = 512 * 1024
    """Notifications that wait on the stream of one modern request while its client reads slowly: thousands of them.
    All connections together can hold a quarter of a gigabyte so."""
    http_retry_ms: int = 1000
    """How long a client should wait before it asks for a broken stream again."""
    http_prime_seconds: float = 0.1
    """How long the head of a handshake answer waits for the answer itself, so that both leave in one piece; a call
    that takes longer is told first how a broken stream is resumed."""
    http_ping_seconds: float = 15.0
    """After so much silence a stream gets a comment, as by the official SDK: proxies close what is silent for 30 to
    60 s."""
    token_bytes: int = 32
    """Random bytes in a token that is generated: nobody guesses it."""
    token_length: int = 16
    """Characters that a token must have at least: a shorter one can be guessed."""
    token_file_bytes: int = 64 * 1024
    """A file of tokens: a thousand of them."""

    # -- remote servers
    connect_seconds: float = 10.0
    """Until a remote server's machine has taken a connection, TLS included; across the world that takes one second."""
    redirects: int = 3
    """Redirects within a server's own origin that are followed: one for a slash, one for a version."""
    refusal_bytes: int = 64 * 1024
    """How much of the body of a refusal is read in search of a JSON-RPC error."""
    response_head_bytes: int = 64 * 1024
    """The most bytes that a server may send before a response begins: its head, and interim responses such as
    `100 Continue`."""
    cookie_bytes: int = 8192
    """Cookies of one remote server; most servers refuse longer headers."""
    body_piece_bytes: int = 64 * 1024
    """How much of a packed body is unpacked at once: what a socket gives, and a few milliseconds of reading."""
    events_in_turn: int = 100
    """Events of a stream that are read before others have a turn."""
    retry_after_most_seconds: float = 3600.0
    """The longest `Retry-After` that is passed on: nobody plans further, and a clock may be wrong."""
    idle_connections: int = 8
    """Connections to one remote server that are kept for the next call."""
    idle_connection_seconds: float = 15.0
    """How long: many servers and balancers close theirs after 60 s, some after 20."""
    notice_seconds: float = 10.0
    """How long a remote server may take to accept a notification or an answer of ours; it has nothing to do for it."""
    notices: int = 256
    """Notifications and answers that it has not accepted yet, before it counts as one that does not read."""
    stream_end_seconds: float = 1.0
    """After the answer on a stream, how long its end is waited for, so that the connection can be used again."""
    resume_seconds: float = 1.0
    """How long after its end a stream is asked for again, where the server does not say."""
    resume_least_seconds: float = 0.05
    """The shortest such pause for an answer, whatever the server says; it doubles while nothing new comes of it."""
    resume_most_seconds: float = 60.0
    """The longest such pause, whatever the server says, and what it doubles up to."""
    resumes: int = 3
    """How often an answer's stream is asked for again after it broke, without one in between that did not."""
    goodbye_seconds: float = 2.0
    """How long the end of a session may take; the server ends it by itself later."""
    event_id_length: int = 4096
    """Characters of an event's id that is sent back, and of a session's: more is no header."""
    mirrored_tools: int = 1000
    """Tools of a remote server of which it is known which parameters are headers too."""
    mirrored_parameters: int = 64
    """Such parameters of one tool."""

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
    group_poll_seconds: float = 0.02
    """How often a process group that must be empty is looked at; no event tells it."""
    group_seconds: float = 0.5
    """What is left of a group whose leader ended well gets SIGTERM, and this long."""
    sweep_seconds: float = 0.5
    """The guardian's search for daemonised descendants; a scan takes milliseconds."""
    orphan_look_seconds: float = 1.0
    """How long after a server started or a child ended the workbench looks for processes that servers left behind."""
    obituary_seconds: float = 0.5
    """After a server's output ended, how long its exit status and last words are waited for:
    calls on it fail within a second."""
    stderr_ring_bytes: int = 64 * 1024
    """The last of a server's stderr, kept for error messages."""
    stderr_tail_bytes: int = 2048
    """How much of it an error shows."""
    stderr_lines_per_second: int = 50
    """How many lines of it the log takes (at level debug); the rest is counted."""
    stderr_line_length: int = 1000
    """Characters of such a line that are looked at; the log shows less."""

    last_write_seconds: float = 1.0
    """How long a client that left may still read its last answers."""

    # -- configuration
    config_bytes: int = 4 * 1024 * 1024
    """A configuration file; the largest seen in use is under 100 KiB."""
    config_depth: int = 64
    """Nesting of the file; its own shape is six deep."""
    config_values: int = 50_000
    """Values in the file; it has thousands at most, and Python reads as many as this in a second."""
    host_file_bytes: int = 32 * 1024 * 1024
    """A configuration of a host: some keep the history of every project in it."""
    host_file_values: int = 500_000
    """Values in it, for the same reason; reading so many takes ten seconds."""
    host_lock_seconds: float = 10.0
    """How long one command waits while others change files of the same folder. Each takes milliseconds, unless it asks
    its user something."""
    host_lock_poll_seconds: float = 0.02
    """How often it tries to get the lock."""
    odd_word_length: int = 20
    """A word of letters and digits of this length that no person would write is taken for a secret by `import`."""
    open_timeout_most_seconds: float = 600.0
    """The largest `openTimeout`: no host waits longer for an answer."""
    timeout_most_seconds: float = 86_400.0
    """The largest of the other times that a file may set: more than a day is a number of milliseconds."""
    timeout_usual_seconds: float = 3600.0
    """Beyond it `check` asks whether milliseconds were meant."""
    in_flight_most: int = 1024
    """The largest `maxConcurrent`: beyond it a local server's own queues are the limit."""
    memory_bytes_least: int = 256 * 1024 * 1024
    """The smallest `maxMemory`: a few of the largest messages must fit."""
    memory_bytes_most: int = 64 * 1024 * 1024 * 1024
    """The largest `maxMemory`: more is a mistake in the unit."""
    message_bytes_least: int = 64 * 1024
    """The smallest `maxMessageSize`: what servers say at their start must fit."""
    message_bytes_most: int = 64 * 1024 * 1024
    """The largest `maxMessageSize`: reading it takes a third of a second, in which nothing else happens."""
    name_length: int = 128
    """Characters in a toolbox or server name."""
    secret_length: int = 6
    """Shorter values are not redacted: `1` or `true` would black out every log line."""
    escape_layers: int = 3
    """Escapes within escapes that are resolved in search of a secret: JSON in JSON has two."""
    secret_piece_length: int = 256
    """A longer secret is looked for in pieces of this length, so that no text is read far beyond what is shown."""
    few_patterns: int = 500
    """Up to this many forms of secrets each is looked for by itself; beyond, a table of their first bytes is faster."""

    # -- what is shown
    names_shown: int = 20
    """Names that an error lists."""
    nearest_candidates: int = 300
    """Names that are compared in search of the nearest: more would block the event loop."""
    nearest_shown: int = 3
    """Names that may have been meant, where several are offered."""
    joined_matches_shown: int = 5
    """How many calls an error shows if a mistaken call can mean several."""
    echoed_arguments_bytes: int = 2048
    """Arguments of a mistaken call up to this size are repeated in the corrected call. Longer ones are in the model's
    context already."""
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
    log_repeat_seconds: float = 1.0
    """How long the same unexpected failure is not told again: a system without files to open has thousands a second."""

    # -- what a host reads at the start
    toolboxes_listed_whole: int = 6
    """Toolboxes whose descriptions stand uncut in the words of `open_toolbox`: as many as 340 tokens and twice their
    names and descriptions pay for. The instructions have them uncut, however many there are."""
    toolbox_listed_cost: int = 36
    """Characters by which the descriptions are cut for each one more: its name in the schema, the number of its
    servers and what stands between cost some seven tokens beyond its words."""
    toolbox_listed_least: int = 16
    """Characters that a description keeps in any case: two or three words, fewer would say nothing."""

    # -- signatures: schemas in one line
    signature_length: int = 12_288
    """Characters of a signature: nearly half of what an answer may cost, and twice the longest seen in use. What is
    deepest is left out beyond it."""
    signature_cut_depth: int = 4
    """How deep one that would be longer is told at most: one level more at a time, as long as it fits."""
    signature_merged_parts: int = 64
    """Parts of an `allOf` that are told as one: people write a few, and each is compared with the others."""
    signature_nodes: int = 1_000
    """A schema with more objects and arrays than this gets an outline instead of a signature: the names of its
    parameters, each with its type in one word. This bounds the work; the largest schemas seen in use have a few
    hundred."""
    signature_parts: int = 800
    """How many parts of a schema are rendered for a signature, over all attempts to make it fit (5 ms). A schema that
    needs more is rendered less deeply. A signature of the greatest length has about 600."""
    signature_inline_depth: int = 8
    """How deep a definition that is used once still stands in its place: deeper ones get a name, so that a chain of
    them needs no stack."""
    brief_length: int = 160
    """Characters of a first sentence: two lines on a terminal; a sentence that is longer is a list."""

    # -- searching tools
    search_tools_least: int = 50
    """Tools that there are at least, when it is told how rare a word is: a few tell nothing of that."""
    search_guess_length: int = 4
    """Letters of an unknown word that is completed; with one more it is looked for as misspelt."""
    search_guess_candidates: int = 2000
    """Known words with the same beginning that are compared for that; 17,500 real tools have 400."""
    search_guesses: int = 3
    """Known words that are tried for an unknown one."""
    search_guessed: int = 4000
    """Unknown words for which that is remembered, and names that are weighed: queries repeat them."""
    search_name_cover_weight: float = 0.13
    """What it counts, of the best match, that a query has all words of a tool's name."""
    search_shortlist: int = 200
    """Tools beyond which words that count little bring in no others: they are in thousands of tools."""
    search_late_share: float = 0.2
    """The part of a query that those words are."""
    search_matches: int = 200_000
    """Words in tools that are looked at for that: 15 ms. What is left of a longer query only ranks what was found."""
    search_candidates: int = 60
    """The best tools by their words alone, which are then compared closely: six times what is shown."""
    search_fit_least: float = 0.22
    """If every sentence of a query scores below this, no tool fits. It is set so that of the public questions that some
    tool answers, at most 1 in 100 is refused."""
    search_tail_share: float = 0.2
    """A tool that scores less than this part of the best score is not shown."""
    search_words: int = 128
    """Words of a query that are looked at."""
    search_word_length: int = 200
    """Characters without a space; what is longer is data, and no word of it is looked at."""
    search_text_length: int = 2000
    """Characters of a description that are searched: 300 words; what it is about stands at its beginning."""
    search_parameters: int = 200
    """Parameters of a tool that are searched, nested ones included."""
    search_steps: int = 128
    """How finely it is told what a word counts in a tool: equal values are kept once."""
    search_vocabulary: int = 500_000
    """Different words of all tools; thirty times those of 17,500 real ones."""
    search_remembered_words: int = 16_384
    """Words whose stem is remembered: the words of a catalog repeat."""

    # -- what `mcp-workbench doctor` looks at, and what `trust` keeps
    examined_at_once: int = 8
    """Servers that `mcp-workbench doctor` starts at once: each is a program that loads."""
    examined_grace_seconds: float = 2.0
    """How much longer than its startup limit a server is examined: it may be on its second try, or say last words."""
    trial_tries: int = 30
    """How often a server is started to find the variables that it needs: enough to find three among two hundred."""
    trial_seconds: float = 120.0
    """How long that may take in all, after the first try."""
    trial_start_seconds: float = 5.0
    """The shortest time limit of such a try. A server that hangs when a variable is missing takes that long each
    time."""
    trial_start_ratio: float = 3.0
    """How many times as long as the first try, which worked, another may take before it counts as failed."""
    trial_names_shown: int = 12
    """How many variables the text output names; `--json` names all."""
    shown_every_seconds: float = 0.5
    """How often it is shown anew at a terminal how long a server has been waited for: people look at whole seconds."""
    column_least: int = 10
    """How narrow a column of a table becomes before columns that should stay whole give way: less can't be read."""
    terminal_columns: int = 80
    """The width of a terminal that does not tell its own: that of the first ones, which all others have."""
    terminal_rows: int = 24
    """The assumed height of a terminal that does not report its own."""
    escape_seconds: float = 0.05
    """How long to wait after Esc for the rest of a key sequence: terminals send it at once, but connections may split
    it."""
    sentence_columns: int = 24
    """The room that a sentence needs beside names: in less there are a word or two to a line, and it stands below."""
    written_secret_length: int = 8
    """Characters of a value that is taken for a secret because of its name; shorter ones are words and numbers."""
    random_secret_length: int = 32
    """Characters of a value that is taken for a secret because it looks like chance: 128 bits as hex digits."""
    random_secret_bits: float = 3.4
    """What each of its characters tells at least, on average: chance in hex has 3.7 or more, words and paths less."""
    collisions_shown: int = 10
    """Tools whose name several servers of a toolbox share that are named to a person; beyond it, how many there are."""
    trust_store_bytes: int = 1024 * 1024
    """The file of what is trusted: a few hundred bytes for each project."""
    trusted_files: int = 1000
    """Projects that are trusted at once; those that were trusted longest ago go first."""
    trust_lock_seconds: float = 5.0
    """How long one `mcp-workbench trust` waits for another: each writes a small file."""

    # -- the record of what a workbench does
    log_early_lines: int = 100
    """Lines of the log from before anybody listens: a warning for each variable that is not set."""
    record_flush_seconds: float = 1.0
    """How long after the first event they are written: people look at seconds, and a write costs a thread a moment."""
    record_end_seconds: float = 1.0
    """How long the end of a process waits for its last events to be written: a fifth of what it may take in all."""
    record_batch_calls: int = 200
    """Calls that have a row each, of one write; those beyond are counted. Agents make a few a second."""
    record_rows_at_once: int = 100
    """Rows of one statement; of older versions of SQLite one has at most 999 values."""
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
    record_age_seconds: float = 14 * 86_400.0
    """How long all of it is kept; what went wrong before that is not looked for any more."""
    record_runs: int = 50
    """Workbenches that ended and are still known."""
    record_tools: int = 2000
    """Tools whose calls are counted, of one workbench; those that are called least are forgotten."""
    record_flights: int = 1000
    """Calls under way that are shown."""
    record_audiences: int = 10_000
    """Clients and toolboxes of which it is remembered that they met, so that a list is counted once."""
    record_prune_every: int = 60
    """Old rows and old runs are removed after this many writes: about a minute of steady work. The other bounds hold
    after every write."""
    record_tries: int = 3
    """How often a damaged file is made anew by one process, and how often the last events are tried to be written."""
    record_waiting: int = 10
    """Writes that are put off since another process has the file: it needs milliseconds, unless it is stuck."""
    record_rest_seconds: float = 60.0
    """How long nothing is recorded after the system refused: a full disk stays full for a while."""
    record_clients: int = 50
    """How many clients of one workbench are recorded, current and former, by name and version."""
    record_error_bytes: int = 65_536
    """How many bytes of a failed call's content are searched for its text; texts for people are shorter."""
    record_error_length: int = 300
    """How many characters of a call's error are recorded: a sentence or two."""
    record_name_length: int = 200
    """Characters of a tool's name: an agent may call anything."""
    record_arguments_length: int = 4000
    """Characters of a call's arguments, where they are recorded."""
    record_result_length: int = 16_000
    """Characters of its result."""
    record_ps_seconds: float = 2.0
    """How long `ps` may take to tell when a process was started, where the system has no /proc."""
    record_token_bytes: float = 4.0
    """Bytes of a token, in the estimate of what was saved: of definitions in JSON it is 3.6 to 4.4."""
    record_read_tries: int = 8
    """How often a reader waits for a process that writes just now."""
    status_errors: int = 10
    """Calls that failed, of each workbench, that `mcp-workbench status` shows: the last ones."""
    logs_lines: int = 50
    """Lines that `mcp-workbench logs` shows: two screens."""

    # -- logging in to remote servers
    login_wait_seconds: float = 300.0
    """How long a person has to log in, in the browser: a password, a second factor and a consent."""
    login_http_seconds: float = 30.0
    """Each request to an authorization server; it is a small one."""
    login_body_bytes: int = 256 * 1024
    """Its answer: documents and tokens of a few KiB."""
    login_margin_seconds: float = 60.0
    """So long before its end a token is renewed, so that no call meets the end on its way."""
    login_margin_share: float = 0.2
    """Or this part of its life, where that is less: some live for a minute."""
    login_pause_seconds: float = 30.0
    """After it could not be renewed in time, until that is tried again: the server may accept it meanwhile."""
    login_lock_seconds: float = 45.0
    """How long a process waits while another one renews the same login: a request and a write."""
    login_poll_seconds: float = 0.05
    """How often it looks whether that is done."""
    typed_line_bytes: int = 4096
    """A line that a person types in answer to a server: a terminal hands over no longer ones."""
    login_store_bytes: int = 4 * 1024 * 1024
    """The file of logins: thousands of them."""
    login_scopes_length: int = 1000
    """Characters of the scopes that a server has asked for more of, one refusal after the other."""
    login_tokens_hidden: int = 20
    """Earlier tokens of a server that are still kept out of logs; those before them ended long ago."""
    login_request_bytes: int = 64 * 1024
    """What a browser sends when it comes back: one line with a code, and headers."""
    login_browser_seconds: float = 10.0
    """How long one connection of a browser may take for that."""
    callback_port_least: int = 1024
    """Lower ports belong to the system."""
    callback_port_most: int = 65_535
    """There are no higher ones."""

    def bounded(self, bounds: Mapping[str, Any]) -> Limits:
        """The same with some of them changed, as a configuration says."""
        return msgspec.structs.replace(self, **bounds) if bounds else self


DEFAULTS = Limits()
