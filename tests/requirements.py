"""What the two naming features ask for, as data: every number has a test, and every test's number is here.

`002` is the tool naming format, `007` the structured tool names that follow it. Where 007 overrules 002, `successor`
is the statement that the tests hold instead. AS: acceptance scenario, EC: edge case (in the order of the document),
A: assumption, OOS: out of scope, API: a contract of 002 that has no number of its own.
"""

from __future__ import annotations

from typing import NamedTuple


class Requirement(NamedTuple):
    statement: str
    successor: str = ""

    @property
    def held(self) -> str:
        """The statement that tests must hold."""
        return self.successor or self.statement


TABLE = "The name table returns the right identifier for every registered name."
NO_PARSING = "No parsing code exists: a joined name is looked up and never taken apart."
SEPARATE = "Proxy answers carry separate fields, and both modes resolve to the same ToolIdentifier."
CHANGELOG = "CHANGELOG.md has the 0.5.0 entry; the package is 0.11.0."

REQUIREMENTS: dict[str, Requirement] = {
    # -- 002, consistent separators
    "002-US1-AS1": Requirement("In dynamic mode a tool is registered as {toolbox}__{server}__{tool}."),
    "002-US1-AS2": Requirement("Proxy mode lists {toolbox}__{server}__{tool} names.", SEPARATE),
    "002-US1-AS3": Requirement("A joined name splits into its parts without ambiguity.", TABLE),
    "002-US2-AS1": Requirement("The changelog marks the change as incompatible, with old and new names."),
    "002-US2-AS2": Requirement(
        "A client that uses an old name gets an error that says so and names the migration guide."
    ),
    "002-US2-AS3": Requirement("Following the migration steps makes an old client work."),
    "002-US3-AS1": Requirement("parseToolName splits on double underscores.", TABLE),
    "002-US3-AS2": Requirement("Parsing has no special logic for different separators.", NO_PARSING),
    "002-US3-AS3": Requirement("Underscores within a tool's own name belong to that name."),
    "002-EC-1": Requirement("A tool named my__special__tool is registered and resolved whole."),
    "002-EC-2": Requirement("A call under an old name gets a clear error."),
    "002-EC-3": Requirement("The change is atomic: an old name is never served."),
    "002-FR-001": Requirement("Joined names are {toolbox}__{server}__{tool}."),
    "002-FR-002": Requirement("Joined names are parsed by splitting on double underscores.", TABLE),
    "002-FR-003": Requirement("Single underscores in a tool's own name are handled."),
    "002-FR-004": Requirement("Both modes use the joined format.", f"Dynamic mode uses the joined format. {SEPARATE}"),
    "002-FR-005": Requirement("Toolbox, server and tool stay distinguishable when names contain underscores."),
    "002-FR-006": Requirement("The changelog documents the change with before and after examples."),
    "002-FR-007": Requirement("Calls in the old format get a clear error that leads to the documentation."),
    "002-FR-008": Requirement("The package version goes from 0.4.0 to 0.5.0.", CHANGELOG),
    "002-SC-001": Requirement("No name in dynamic mode has the old mixed format."),
    "002-SC-002": Requirement("Every registered name resolves to its three parts, whatever they contain."),
    "002-SC-003": Requirement("The documentation shows at least three pairs of old and new names."),
    "002-SC-004": Requirement("Parsing has no special cases.", NO_PARSING),
    "002-SC-005": Requirement("The package version is 0.5.0.", CHANGELOG),
    "002-A1": Requirement("The incompatible change is released as a minor version."),
    "002-A3": Requirement("A name has three levels and no more."),
    "002-A4": Requirement("No part contains double underscores.", "Double underscores in any part are exact."),
    "002-A5": Requirement("Both modes use the joined format in all operations.", SEPARATE),
    "002-OOS-002": Requirement("There are no aliases for old names and no dual support."),
    "002-OOS-003": Requirement("The separator is not configurable."),
    "002-API-1": Requirement("ToolInfo.name is the joined name.", "ToolInfo.name is the tool's own name."),
    "002-API-2": Requirement("Both modes produce identical names.", SEPARATE),
    "002-API-3": Requirement(
        "workbench_use_tool takes toolbox_name and tool_name.", "use_tool takes a structured tool."
    ),
    "002-API-4": Requirement(
        "validateToolName refuses names with more than two separators.",
        "The validators are dropped: my__special__tool is a good name.",
    ),
    "002-API-5": Requirement("Every valid and invalid example of the documents resolves as they say."),
    "002-API-6": Requirement("Errors of calls by joined name have the documented texts."),
    # -- 007, structured names
    "007-US1-AS1": Requirement("use_tool with a structured name runs the tool and returns its server's result."),
    "007-US1-AS2": Requirement("Identical tool names in two toolboxes are routed by the toolbox."),
    "007-US1-AS3": Requirement("Identical tool names on two servers are routed by the server."),
    "007-US2-AS1": Requirement("Each listed tool has toolbox_name, source_server and its own name."),
    "007-US2-AS2": Requirement("Equal tool names are told apart by source_server."),
    "007-US2-AS3": Requirement("The listed fields map directly to the parameters of use_tool."),
    "007-US3-AS1": Requirement("An unknown toolbox is named by the error."),
    "007-US3-AS2": Requirement("An unknown server is named by the error, within its toolbox."),
    "007-US3-AS3": Requirement("An unknown tool is named by the error, within its server and toolbox."),
    "007-EC-1": Requirement("A tool name with double underscores routes exactly."),
    "007-EC-2": Requirement("An empty part is refused."),
    "007-EC-3": Requirement("Extra and missing fields are refused."),
    "007-EC-4": Requirement("The old string format is refused with an error that helps."),
    "007-FR-001": Requirement("use_tool takes an identifier with three required strings."),
    "007-FR-002": Requirement("open_toolbox answers with separate fields for each tool."),
    "007-FR-003": Requirement("Code represents a tool's identity as a structured object."),
    "007-FR-004": Requirement("All three parts must be non-empty strings."),
    "007-FR-005": Requirement("Routing uses the fields, without parsing or joining."),
    "007-FR-006": Requirement("Errors name toolbox, server and tool separately."),
    "007-FR-007": Requirement("Types for tool identities are structured."),
    "007-FR-008": Requirement("Tool names with special characters are handled."),
    "007-FR-009": Requirement("Documentation and examples show the structured format."),
    "007-SC-001": Requirement("Any tool can be called without joining or parsing strings."),
    "007-SC-002": Requirement("What open_toolbox returns is usable in use_tool without transformation."),
    "007-SC-003": Requirement("Every call is routed right, whatever characters its tool name has."),
    "007-SC-004": Requirement("Every failure names the fields that it concerns."),
    "007-SC-005": Requirement("No code takes a joined name apart."),
    "007-SC-006": Requirement("No signature uses a bare string for a tool's identity."),
    "007-A-001": Requirement("The incompatible change is a minor version, 0.11.0."),
    "007-A-002": Requirement("There is no backward compatibility."),
    "007-A-003": Requirement("The structured format applies to parameters and to internal representations."),
    "007-A-004": Requirement("Names may contain characters that would be a problem in joined strings."),
}
