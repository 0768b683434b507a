"""Which tools fit a query: how well on real words, whether anything fits, and that an index stays what it should be."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from mcp_workbench.catalog.definition import Definition
from mcp_workbench.catalog.search import document, vocabulary
from mcp_workbench.catalog.search import index as index_module
from mcp_workbench.catalog.search.index import Hits, Index, Ranking
from mcp_workbench.catalog.search.vocabulary import is_one_slip
from mcp_workbench.identity import ServerIdentifier, ToolIdentifier
from mcp_workbench.limits import DEFAULTS, Limits

ANYTHING = Ranking(fit_least=0.0, tail_share=0.0)
"""Everything that matches at all is shown."""
USUAL = Ranking()

TOOLS: dict[str, dict[str, tuple[str, str]]] = {
    "files": {
        "read_file": ("Read the complete contents of a file from disk.", "path head tail"),
        "write_file": ("Create a new file or overwrite an existing one with new content.", "path content"),
        "edit_file": ("Make line-based edits to a text file and return a diff.", "path edits dryRun"),
        "list_directory": ("List the files and folders in a directory.", "path"),
        "move_file": ("Move or rename files and directories.", "source destination"),
        "search_files": ("Recursively find files whose names match a pattern.", "path pattern excludePatterns"),
        "get_file_info": ("Size, times and permissions of a file or directory.", "path"),
    },
    "git": {
        "git_status": ("Show the working tree status.", "repo_path"),
        "git_commit": ("Record changes to the repository.", "repo_path message"),
        "git_log": ("Show the commit logs.", "repo_path max_count"),
        "git_diff": ("Show differences between branches or commits.", "repo_path target"),
        "git_create_branch": ("Create a new branch from an optional base branch.", "repo_path branch_name"),
        "git_checkout": ("Switch branches.", "repo_path branch_name"),
    },
    "github": {
        "create_issue": ("Open a new issue in a GitHub repository.", "owner repo title body labels"),
        "create_pull_request": ("Open a pull request from a branch.", "owner repo title head base"),
        "merge_pull_request": ("Merge a pull request.", "owner repo pull_number"),
        "search_code": ("Search for code across GitHub repositories.", "q sort"),
        "fork_repository": ("Fork a repository to your account.", "owner repo"),
    },
    "calendar": {
        "createEvent": ("Add an event to the calendar, with guests.", "title start end attendees location"),
        "listEvents": ("List upcoming events in a time range.", "timeMin timeMax"),
        "deleteEvent": ("Delete an event from the calendar.", "eventId"),
        "findFreeTime": ("Find times at which all attendees are free.", "attendees duration"),
    },
    "mail": {
        "send_email": ("Send an e-mail to one or more recipients.", "to cc subject body attachments"),
        "search_inbox": ("Search messages in the mailbox by sender, subject or text.", "query folder"),
        "mark_as_read": ("Mark a message as read.", "message_id"),
    },
    "weather": {
        "get_forecast": ("Weather forecast for a location, up to ten days.", "latitude longitude days"),
        "get_alerts": ("Active weather alerts for a state.", "state"),
    },
    "postgres": {
        "query": ("Run a read-only SQL query against the database.", "sql"),
        "list_tables": ("List the tables of a schema.", "schema"),
        "describe_table": ("Columns, types and indexes of a table.", "table"),
    },
    "browser": {
        "browser_navigate": ("Go to a URL.", "url"),
        "browser_click": ("Click on an element of the web page.", "element ref"),
        "browser_type": ("Type text into an editable element.", "element text submit"),
        "browser_take_screenshot": ("Take a screenshot of the current page.", "filename fullPage"),
    },
    "slack": {
        "post_message": ("Post a message to a channel.", "channel text thread_ts"),
        "list_channels": ("List public channels of the workspace.", "cursor limit"),
        "add_reaction": ("Add an emoji reaction to a message.", "channel timestamp reaction"),
    },
    "maps": {
        "geocode": ("Turn an address into coordinates.", "address"),
        "get_directions": ("Route between two places by car, bike or on foot.", "origin destination mode"),
        "search_nearby": ("Find restaurants, shops and other places near a location.", "location radius type"),
    },
    "media": {
        "transcribe_audio": ("Convert speech in an audio file to text.", "file language"),
        "resize_image": ("Change the width and height of a picture.", "file width height"),
    },
    "money": {
        "get_stock_price": ("Latest price of a stock by its ticker symbol.", "symbol"),
        "convert_currency": ("Convert an amount between currencies at today's rate.", "amount from to"),
    },
}

QUESTIONS = {
    "show me what is in this text file": "read_file",
    "save text to disk": "write_file",
    "change a few lines in a file": "edit_file",
    "what is in this folder": "list_directory",
    "rename a file": "move_file",
    "find files by name": "search_files",
    "how big is this file": "get_file_info",
    "commit my changes": "git_commit",
    "history of commits": "git_log",
    "compare two branches": "git_diff",
    "make a new branch": "git_create_branch",
    "switch to another branch": "git_checkout",
    "report a bug on GitHub": "create_issue",
    "open a PR": "create_pull_request",
    "open a pull request": "create_pull_request",
    "merge pull request 12": "merge_pull_request",
    "search source code": "search_code",
    "fork a repo": "fork_repository",
    "schedule a meeting with Anna tomorrow at 10": "createEvent",
    "what appointments do I have next week": "listEvents",
    "cancel my appointment": "deleteEvent",
    "when are we all free": "findFreeTime",
    "send mail to bob@example.org": "send_email",
    "look for messages from my landlord": "search_inbox",
    "mark message as read": "mark_as_read",
    "will it rain in Lisbon? weather for the next days": "get_forecast",
    "storm alerts": "get_alerts",
    "run SQL": "query",
    "which tables are in the database": "list_tables",
    "columns of a table": "describe_table",
    "open a website": "browser_navigate",
    "press the button on the page": "browser_click",
    "fill in text in a form element": "browser_type",
    "take a screen shot": "browser_take_screenshot",
    "screenshoot of the page": "browser_take_screenshot",
    "post to a channel": "post_message",
    "list channels": "list_channels",
    "react with an emoji": "add_reaction",
    "coordinates of an address": "geocode",
    "how do I get from the station to the hotel by bike, route": "get_directions",
    "restaurants near me": "search_nearby",
    "transcribe a recording": "transcribe_audio",
    "make a photo smaller, resize": "resize_image",
    "share price of ACME": "get_stock_price",
    "exchange rate, euros to dollars, currency": "convert_currency",
}

NONSENSE = [
    "asdfgh qwerty",
    "what is the meaning of life",
    "knit a sweater",
    "lorem ipsum dolor sit amet",
    "feed the cat",
    "tell me a story about dragons",
    "why is the sky blue",
    "1234567",
    "zebras, giraffes, elephants, unicorns, dragons and griffins chase a squirrel",
    "🙂🙃",
    "天气",
    "   ",
    "\x00\x01",
]


def definition(name: str, description: str = "", parameters: str = "", **more: Any) -> Definition:
    schema = {"type": "object", "properties": {part: {"type": "string"} for part in parameters.split()}}
    whole = {"name": name, "description": description, "inputSchema": schema, **more}
    return Definition(name, Raw(json.dumps(whole).encode()))


def real(ranking: Ranking = USUAL) -> Index:
    index = Index(ranking=ranking)
    for server, tools in TOOLS.items():
        index.put(ServerIdentifier("work", server), [definition(name, *texts) for name, texts in tools.items()])
    return index


def index_of(*tools: Definition, ranking: Ranking = ANYTHING, limits: Limits = DEFAULTS) -> Index:
    index = Index(limits, ranking)
    index.put(ServerIdentifier("box", "server"), tools)
    return index


def found(index: Index, query: str, most: int = 10, **where: Any) -> list[str]:
    return [hit.identifier.tool for hit in index.search(query, most, **where).hits]


# -- on real words


def test_real_questions_find_their_tools():
    index = real()
    ranked = {question: found(index, question) for question in QUESTIONS}
    first = [question for question, tool in QUESTIONS.items() if ranked[question][:1] != [tool]]
    missed = [question for question, tool in QUESTIONS.items() if tool not in ranked[question][:5]]
    assert len(first) <= 0.15 * len(QUESTIONS), {question: ranked[question][:3] for question in first}
    assert len(missed) <= 1, {question: ranked[question] for question in missed}


@pytest.mark.parametrize("query", NONSENSE)
def test_nothing_is_found_for_what_no_tool_does(query: str):
    assert real().search(query, 10) == Hits([], is_weak=True)


def test_where_nothing_fits_well_the_nearest_three_are_weak_and_one_sentence_that_fits_is_enough():
    index = real(Ranking(fit_least=0.7, tail_share=0.0))
    vague = "Medieval monks brewed beer in a river state, and wrote about the width of bread, columns and channels"
    hits, is_weak = index.search(vague, 10)
    assert is_weak
    assert len(hits) == 3
    assert not index.search(f"{vague}. Commit my changes.", 10).is_weak
    assert index.search(f"{vague}, commit my changes", 10).is_weak
    assert not index.search(f"{vague} in slack", 10).is_weak


@pytest.mark.parametrize(("query", "server"), [("zebras and giraffes, slack", "slack"), ("zebras, workshop", "plain")])
def test_a_query_that_names_a_server_or_a_toolbox_shows_a_tool_of_it(query: str, server: str):
    index = real(Ranking(tail_share=0.9))
    index.put(
        ServerIdentifier("zoo", "animals"), [definition("zebra_giraffe", "Zebras and giraffes, giraffes, zebras")]
    )
    index.put(ServerIdentifier("workshop", "plain"), [definition("hammer", "Hits nails")])
    hits, is_weak = index.search(query, 2)
    assert not is_weak
    assert [hit.identifier.server for hit in hits] == ["animals", server]


def test_people_leave_out_mcp_and_server_when_they_name_one():
    index = real(Ranking(tail_share=0.9))
    index.put(ServerIdentifier("zoo", "animals"), [definition("zebra_giraffe", "Zebras and giraffes")])
    index.put(ServerIdentifier("work", "osm-mcp-server"), [definition(f"tool_{n}", f"Tool {n}") for n in range(5)])
    hits, is_weak = index.search("zebras and giraffes with OSM", 10)
    assert not is_weak
    assert [hit.identifier.server for hit in hits] == ["animals", *["osm-mcp-server"] * 3]


def test_a_server_that_a_query_names_comes_first_among_those_with_the_same_tool():
    index = Index()
    tools = [definition("read_file", "Read a file."), definition("write_file", "Write a file.")]
    for toolbox in "abcdefgh":
        index.put(ServerIdentifier(f"box_{toolbox}", "files"), tools)
    hit = index.search("read a file, not with box_a, with box_g", 1).hits[0]
    named = [ServerIdentifier(f"box_{letter}", "files") for letter in "ag"]
    assert ServerIdentifier(*hit.identifier.parts()[:2]) in named
    assert hit.also_in[0] in named


def test_the_tool_of_each_step_of_a_long_query_comes_before_one_that_no_step_asks_for():
    seen = ("quasar", "nebula", "comet", "pulsar", "meteor")
    sky = [definition(f"observe_{name}", f"Observe a {name} in the sky") for name in seen]
    unasked = definition("observe_asteroid", "Observe asteroids orbiting far planets in the sky by night or day")
    fruits = ("apple", "banana", "cherry", "damson", "elder", "fig", "grape", "hazel", "iris", "juniper")
    lists = [definition(f"list_{name}", "List files of this kind") for name in fruits]
    index = index_of(*sky, unasked, *lists, definition("list_files", "List files"))
    task = (
        "Observe a bright quasar in the sky, observe a distant nebula in the sky, observe a comet in the evening sky, "
        "observe a pulsar in the southern sky, observe a meteor in the sky, then list files"
    )
    ranked = found(index, task)
    assert set(ranked[:6]) == {"list_files", *(f"observe_{name}" for name in seen)}
    assert ranked[6] == "observe_asteroid"


def test_words_in_quotes_count_less_than_the_task():
    index = index_of(definition("send_email", "Send a message"), definition("weather", "The weather today"))
    assert found(index, "email weather")[0] == "weather"
    assert found(index, 'email "weather"')[0] == "send_email"


def test_a_search_for_one_thing_does_not_show_ten():
    assert found(real(), "transcribe audio") == ["transcribe_audio"]


@pytest.mark.parametrize(("share", "shown"), [(0.0, 2), (0.9, 1)])
def test_what_is_far_behind_the_first_is_not_shown(share: float, shown: int):
    tools = [definition("transcribe_audio"), definition("play", "Plays a song, a noise or any other kind of audio")]
    assert len(found(index_of(*tools, ranking=Ranking(tail_share=share)), "transcribe audio")) == shown


def test_a_word_that_no_tool_has_does_not_make_the_others_worthless():
    index = index_of(definition("read_file"), definition("delete_file"), ranking=USUAL)
    assert found(index, "file report") != []


# -- many matches


def test_rare_words_are_looked_at_first_where_not_all_can_be():
    tools = [definition(f"get_{letter}") for letter in "abcdefghij"]
    index = index_of(*tools, definition("zebra"), ranking=USUAL, limits=Limits(search_matches=5))
    assert found(index, "get a zebra")[0] == "zebra"


def test_words_that_count_little_rank_what_was_found():
    others = [definition(f"get_{letter}") for letter in "abcdefghij"]
    zebras = [definition("zebra"), definition("zebra_get"), definition("z", "A house, a tree and then a zebra")]
    index = index_of(*others, *zebras, ranking=Ranking(shortlist=2, late_share=0.9))
    assert found(index, "get the zebra")[:2] == ["zebra_get", "zebra"]


def test_words_that_count_little_bring_in_tools_where_there_are_few():
    tools = [definition("get_a"), definition("get_b"), definition("zebra")]
    ranking = Ranking(late_share=0.9, tail_share=0.0)
    assert sorted(found(index_of(*tools, ranking=ranking), "get a zebra")) == ["get_a", "get_b", "zebra"]


def test_no_more_are_compared_closely_than_may_be_even_where_all_are_equal():
    index = index_of(*(definition(f"tool_{letter}", "Reads") for letter in "jihgfedcba"))
    kept = index._largest(dict.fromkeys(index._rows, 1.0), 3)
    assert sorted(index._rows[number].identifier.tool for number in kept) == ["tool_a", "tool_b", "tool_c"]


def test_equal_tools_stand_in_the_order_of_their_names():
    index = index_of(*(definition(f"tool_{letter}", "Reads a file") for letter in "cab"))
    assert found(index, "reads a file") == ["tool_a", "tool_b", "tool_c"]


def test_words_are_not_guessed_among_too_many(monkeypatch: pytest.MonkeyPatch):
    tools = [definition("weather"), definition("webcam"), definition("wedding")]
    monkeypatch.setattr(vocabulary, "SEARCH_GUESS_CANDIDATES", 3)
    assert found(index_of(*tools, ranking=USUAL), "wether") == ["weather"]
    monkeypatch.setattr(vocabulary, "SEARCH_GUESS_CANDIDATES", 2)
    assert found(index_of(*tools, ranking=USUAL), "wether") == []


def test_the_name_of_a_server_leads_to_its_tools():
    hits = real().search("weather", 10).hits
    assert {hit.identifier.server for hit in hits} == {"weather"}
    assert len(hits) == 2


def test_hits_come_best_first_and_at_most_so_many():
    hits = real(ANYTHING).search("list files in a directory", 3).hits
    assert len(hits) == 3
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_hit_names_its_tool_in_full():
    assert real().search("list channels", 1).hits[0].identifier == ToolIdentifier("work", "slack", "list_channels")


# -- what is matched


@pytest.mark.parametrize(
    "tool",
    [
        definition("frobnicate"),
        definition("getFrobnicateInfo"),
        definition("t", "Will frobnicate it."),
        definition("t", "", "frobnicate"),
        definition("t", title="Frobnicate"),
        definition("t", annotations={"title": "Frobnicate"}),
        definition("t", inputSchema={"properties": {"a": {"description": "what to frobnicate"}}}),
        definition("t", inputSchema={"properties": {"a": {"properties": {"frobnicate": {}}}}}),
        definition("t", inputSchema={"properties": {"a": {"items": {"properties": {"frobnicate": {}}}}}}),
    ],
)
def test_a_word_is_found_wherever_a_definition_has_it(tool: Definition):
    index = index_of(tool, definition("other", "Does something else."))
    assert found(index, "frobnicate") == [tool.name]


def test_a_word_is_found_in_the_name_of_the_server_and_in_what_the_toolbox_is_about():
    index = Index(ranking=ANYTHING)
    index.put(ServerIdentifier("box", "frobnicator"), [definition("a")])
    index.put(ServerIdentifier("box", "plain"), [definition("b")], about="All about plumbing")
    assert found(index, "frobnicator") == ["a"]
    assert found(index, "plumbing") == ["b"]


def test_a_name_counts_more_than_a_description_and_that_more_than_what_the_toolbox_is_about():
    index = Index(ranking=ANYTHING)
    index.put(ServerIdentifier("box", "one"), [definition("a", "some words")], about="invoice")
    index.put(ServerIdentifier("box", "two"), [definition("b", "an invoice")])
    index.put(ServerIdentifier("box", "three"), [definition("invoice", "some words")])
    assert found(index, "invoice") == ["invoice", "b", "a"]


def test_rare_words_count_more_than_common_ones():
    common = [definition(f"get_{letter}", "Gets a thing") for letter in "abcdefgh"]
    index = index_of(*common, definition("pay_invoice", "Does it"))
    assert found(index, "get an invoice")[0] == "pay_invoice"


def test_words_of_every_toolboxs_description_are_still_worth_asking_for():
    """Eight projects, each with its files: what a toolbox says of all its tools makes no word common."""
    index = Index()
    tools = [definition(name, *texts) for name, texts in TOOLS["files"].items()]
    for number in range(8):
        index.put(
            ServerIdentifier(f"project{number}", "files"), tools, about=f"Read and write files of project {number}"
        )
    assert found(index, "read a file")[0] == "read_file"
    best = index.search("write a file of project 5", 1).hits[0].identifier
    assert (best.toolbox, best.tool) == ("project5", "write_file")


def test_equal_definitions_take_one_place_and_name_the_others():
    index = Index(ranking=Ranking(fit_least=0.0, tail_share=0.0, shortlist=6, candidates=6))
    alike = definition("read_file", "Read a file.")
    places = [ServerIdentifier(box, server) for box in ("one", "two") for server in ("a", "b", "c")]
    for number, place in enumerate(places):
        index.put(place, [alike, definition("stat", f"A file {number}.")])
    first, *others = index.search("read file", 10).hits
    assert first.identifier == ToolIdentifier("one", "a", "read_file")
    assert list(first.also_in) == places[1:]
    assert [hit.identifier.tool for hit in others] == ["stat"] * 5
    inside = index.search("read file", 1, toolbox="two").hits[0]
    assert inside.identifier == ToolIdentifier("two", "a", "read_file")
    assert list(inside.also_in) == places[4:]
    for place in places[1:]:
        index.drop(place)
    assert index.search("read file", 1).hits[0].also_in == ()


def test_words_that_stand_side_by_side_count_more():
    index = index_of(definition("a", "Pull harder for each request"), definition("b", "Harder for each pull request"))
    assert found(index, "pull request")[0] == "b"


def test_tools_of_a_server_that_fits_come_first_among_equals():
    index = Index(ranking=ANYTHING)
    index.put(ServerIdentifier("box", "alpha"), [definition("run", "Start the engine."), definition("x", "Nothing")])
    index.put(
        ServerIdentifier("box", "beta"), [definition("run", "Start the engine"), definition("y", "Stop the engine")]
    )
    assert index.search("start the engine", 1).hits[0].identifier.server == "beta"


def test_a_name_that_was_asked_for_whole_comes_before_one_that_says_more():
    index = index_of(definition("read_file_backwards"), definition("read_file"))
    assert found(index, "read file") == ["read_file", "read_file_backwards"]


@pytest.mark.parametrize(("weight", "first"), [(0.0, "postman"), (10.0, "mail")])
def test_how_much_a_whole_name_counts_is_as_it_is_weighed(weight: float, first: str):
    ranking = Ranking(name_cover_weight=weight, tail_share=0.0)
    said = definition("postman", "Mail a letter. Letters are mailed.")
    assert found(index_of(said, definition("mail", "Nothing of this"), ranking=ranking), "mail letter")[0] == first


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("folder", "list_directory"),
        ("remove it", "delete_row"),
        ("picture", "resize_image"),
        ("wether", "get_weather"),
        ("screen shot", "take_screenshot"),
        ("web hook", "add_webhooks"),
        ("12 34", "code_1234"),
        ("wordcloud", "make_word_cloud"),
        ("kuber", "kubernetes_pods"),
        ("github", "GitHub"),
        ("git hub", "GitHub"),
        ("deleting ROWS", "delete_row"),
        ("天气", "查询天气"),
        ("файлы", "читать_файл"),
        ("cafe", "café_finder"),
    ],
)
def test_other_forms_and_other_words_for_the_same_are_found(query: str, name: str):
    index = index_of(definition(name), definition("zzz", "Something that has nothing to do with it."))
    assert found(index, query) == [name]


def test_a_word_that_was_said_counts_more_than_another_for_the_same():
    index = index_of(definition("remove_row"), definition("delete_row"))
    assert found(index, "delete row") == ["delete_row", "remove_row"]
    assert found(index, "remove row") == ["remove_row", "delete_row"]


def test_a_word_that_asks_more_than_it_names_counts_little():
    index = index_of(definition("help_desk"), definition("invoice_desk"))
    assert found(index, "help with an invoice")[0] == "invoice_desk"


@pytest.mark.parametrize(
    ("word", "other", "is_near"),
    [
        ("wether", "weather", True),
        ("weatherr", "weather", True),
        ("waether", "weather", True),
        ("weatjer", "weather", True),
        ("weather", "weather", False),
        ("wethr", "weather", False),
        ("weathre", "weather", True),
        ("abcd", "dcba", False),
        ("weathe", "weather", True),
    ],
)
def test_one_slip_is_one_letter_or_two_exchanged(word: str, other: str, is_near: bool):  # noqa: FBT001 -- a table
    assert is_one_slip(word, other) is is_near
    assert is_one_slip(other, word) is is_near


# -- toolboxes


def test_a_search_in_a_toolbox_stays_there():
    index = Index(ranking=ANYTHING)
    index.put(ServerIdentifier("one", "files"), [definition("read_file")])
    index.put(ServerIdentifier("two", "files"), [definition("read_file")])
    assert [hit.identifier.toolbox for hit in index.search("read file", 10, toolbox="two").hits] == ["two"]
    assert [hit.identifier.toolbox for hit in index.search("read file", 10).hits] == ["one"]


def test_a_toolbox_that_is_not_there_has_nothing():
    assert real().search("read file", 10, toolbox="other").hits == []


def test_an_empty_index_has_nothing():
    assert Index().search("read file", 10).hits == []


def test_a_small_toolbox_is_searched_whole_beside_large_ones():
    index = Index(ranking=Ranking(shortlist=5, candidates=5))
    index.put(
        ServerIdentifier("large", "files"), [definition(f"read_file_{number}", "Reads a file") for number in range(50)]
    )
    index.put(ServerIdentifier("small", "files"), [definition("load_document", "Reads a file")])
    assert found(index, "read file", toolbox="small") == ["load_document"]


# -- kept current


def test_what_a_server_lists_anew_replaces_what_it_had():
    index = index_of(definition("old_thing"))
    index.put(ServerIdentifier("box", "server"), [definition("new_thing")])
    assert found(index, "thing") == ["new_thing"]
    assert found(index, "old") == []


def test_a_server_that_is_dropped_is_gone_and_dropping_it_again_is_nothing():
    index = index_of(definition("thing"))
    index.drop(ServerIdentifier("box", "server"))
    index.drop(ServerIdentifier("box", "server"))
    assert index.search("thing", 10).hits == []


def test_only_the_tools_of_the_server_that_is_put_are_read(monkeypatch: pytest.MonkeyPatch):
    index = real()
    read: list[str] = []
    reading = document.read
    monkeypatch.setattr(
        document, "read", lambda tool, *rest, **how: (read.append(tool.name), reading(tool, *rest, **how))[1]
    )
    index.put(ServerIdentifier("work", "weather"), [definition("get_tides", "Times of high water.")])
    index.drop(ServerIdentifier("work", "money"))
    assert read == ["get_tides"]


def test_what_was_taken_out_leaves_nothing_behind():
    index = real()
    for server in TOOLS:
        index.drop(ServerIdentifier("work", server))
    vocabulary = index._vocabulary
    assert index._rows == {}
    assert vocabulary._terms == {}
    assert vocabulary._marked == {}
    assert vocabulary._beginnings == {}
    assert sum(map(len, index._toolboxes.values())) == 0


def test_marks_of_words_that_are_gone_are_used_again():
    index = index_of(definition("alpha_beta"))
    for word in ("gamma", "delta", "epsilon"):
        index.put(ServerIdentifier("box", "server"), [definition(f"{word}_tool")])
    assert max(map(ord, index._vocabulary._marked)) <= 5
    assert found(index, "epsilon") == ["epsilon_tool"]


WORDS = st.sampled_from(["read", "file", "send", "mail", "list", "git", "branch", "weather", "delete", "page"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
DEFINITIONS = st.builds(definition, st.lists(WORDS, min_size=1, max_size=3).map("_".join), TEXTS, TEXTS)
PLACES = st.builds(ServerIdentifier, st.sampled_from(["one", "two"]), st.sampled_from(["a", "b", "c"]))
STEPS = st.lists(st.tuples(PLACES, st.none() | st.lists(DEFINITIONS, max_size=4), TEXTS), max_size=8)


@settings(max_examples=40)
@given(STEPS, TEXTS, st.sampled_from([None, "one", "two"]), st.randoms())
def test_an_index_that_was_kept_current_is_as_one_that_was_made_anew(steps: Any, query: str, toolbox: Any, chance: Any):
    ranking = Ranking(shortlist=4, candidates=3, fit_least=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vocabulary, "SEARCH_TOOLS_LEAST", 1)
        kept = Index(ranking=ranking)
        there: dict[Any, Any] = {}
        for place, tools, about in steps:
            if tools is None:
                kept.drop(place)
                there.pop(place, None)
            else:
                kept.put(place, tools, about=about)
                there[place] = (tools, about)
            kept.search(query, 5)
        places = list(there)
        chance.shuffle(places)
        made = Index(ranking=ranking)
        for place in places:
            made.put(place, there[place][0], about=there[place][1])
        assert kept.search(query, 5, toolbox=toolbox) == made.search(query, 5, toolbox=toolbox)


@given(STEPS, TEXTS, st.integers(0, 5))
def test_what_is_found_is_there_once_in_order_and_not_too_much(steps: Any, query: str, most: int):
    index = Index(ranking=ANYTHING)
    there: dict[Any, set[str]] = {}
    for place, tools, about in steps:
        index.put(place, tools or [], about=about)
        there[place] = {tool.name for tool in tools or []}
    hits = index.search(query, most).hits
    assert len(hits) <= most
    assert len({hit.identifier for hit in hits}) == len(hits)
    assert all(hit.identifier.tool in there[ServerIdentifier(*hit.identifier.parts()[:2])] for hit in hits)
    assert all(one.score >= two.score > 0 for one, two in pairwise(hits))


# -- whatever comes


@given(st.text())
def test_any_query_is_answered(query: str):
    index = index_of(definition("read_file", "Reads 天气 файл 🙂 café"))
    assert all(hit.score > 0 for hit in index.search(query, 10).hits)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
FIELDS = st.sampled_from(["name", "title", "description", "inputSchema", "annotations", "properties", "items", "type"])
SHAPES = st.recursive(VALUES, lambda inner: st.dictionaries(FIELDS, inner, max_size=4), max_leaves=10)


@given(SHAPES)
def test_any_definition_can_be_put_and_is_found_by_its_name(value: Any):
    tool = Definition("read_file", Raw(json.dumps(value).encode("utf-8", "surrogatepass")))
    assert found(index_of(tool), "read file") == ["read_file"]


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"null", b"[1]", b'{"a":' * 5000 + b"1" + b"}" * 5000, b'{"title":"\\ud800"}']
)
def test_a_definition_that_can_not_be_read_is_found_by_its_name(raw: bytes):
    assert found(index_of(Definition("read_file", Raw(raw))), "read file") == ["read_file"]


@pytest.mark.parametrize("name", ["💥", "__", "...", "a" * 128, "\u200b"])
def test_a_name_without_words_can_be_put(name: str):
    index = index_of(definition(name, "Reads a file"))
    assert found(index, "read file") == [name]


def test_a_name_without_words_is_not_asked_for_because_its_server_is():
    index = Index(ranking=Ranking(name_cover_weight=10.0, tail_share=0.0))
    index.put(ServerIdentifier("box", "mail"), [definition("💥"), definition("mail")])
    assert found(index, "mail") == ["mail", "💥"]


def test_a_definition_is_read_no_further_than_it_may_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(document, "SEARCH_PARAMETERS", 2)
    far = definition("near", "word " * 20 + "farword", "one two three")
    index = index_of(far, ranking=Ranking(fit_least=0.0), limits=Limits(search_text_length=50))
    assert found(index, "farword") == []
    assert found(index, "three") == []
    assert found(index, "two") == ["near"]


def test_a_query_is_read_no_further_than_it_may_be(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(index_module, "QUERY_LENGTH", 20)
    index = index_of(definition("read_file"), ranking=Ranking(fit_least=0.0))
    assert found(index, "read" + " " * 40 + "nothing") == ["read_file"]
    assert found(index, " " * 40 + "read") == []
    index = index_of(definition("read_file"), limits=Limits(search_words=2), ranking=Ranking(fit_least=0.0))
    assert found(index, "zebra giraffe read") == []


def test_new_words_beyond_the_bound_are_not_taken_in_and_nothing_breaks():
    index = index_of(
        definition("alpha_beta"), definition("gamma_alpha"), ranking=USUAL, limits=Limits(search_vocabulary=2)
    )
    assert sorted(found(index, "alpha")) == ["alpha_beta", "gamma_alpha"]
    assert len(index._vocabulary._terms) == 2
    index.drop(ServerIdentifier("box", "server"))
    assert index._vocabulary._terms == {}


@pytest.mark.parametrize(
    "query", ["x" * 100_000, "read " * 20_000, "🙂" * 50_000, "é" * 100_000, "天" * 100_000, "\n" * 10**5]
)
def test_a_huge_query_is_answered(query: str):
    assert len(real().search(query, 10).hits) <= 10


def test_huge_definitions_are_put():
    index = Index()
    many = {f"parameter{number}": {"description": "x " * 5} for number in range(100_000)}
    whole = {"name": "many", "inputSchema": {"properties": many}}
    index.put(ServerIdentifier("box", "many"), [Definition("many", Raw(json.dumps(whole).encode()))])
    index.put(ServerIdentifier("box", "long"), [definition("long", "read the file " * 20_000)])
    assert found(index, "read file") == ["long"]
    assert len(index._vocabulary._terms) < 1000


def test_many_tools_that_say_the_same_are_told_apart_by_their_names():
    names = [f"tool{number:04}" for number in range(1000)]
    index = index_of(*(definition(name, "Reads a file") for name in reversed(names)), ranking=USUAL)
    assert found(index, "reads a file") == names[:10]
