#!/usr/bin/env python3
"""Writes docs/reference/system-file.md's tables from the schema: memtint system schema | scripts/fields.py

The tables replace what is between the two marks of that page. A test (crates/cli/tests/console) fails when a field is missing there.
"""

import json
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).parent.parent / "docs/reference/system-file.md"
BEGIN, END = "<!-- fields: begin -->", "<!-- fields: end -->"
# Tables in the order of the page: definition of the schema, heading.
TABLES = [
    ("", "Top level"),
    ("TaskEntry", "`[[task]]`"),
    ("BandwidthEntry", "`bandwidth` of a task"),
    ("WorkloadEntry", "`workload` of a task"),
    ("BarrierEntry", "`barrier` of a task"),
    ("RefreshEntry", "`[refresh]`"),
    ("RegulatorEntry", "`[regulator]`, and `regulator` of another core"),
    ("BanksEntry", "`[banks]`"),
    ("SharedBanksEntry", "`[shared_banks]`"),
    ("ParallelBanksEntry", "`[parallel_banks]`"),
    ("OtherCoreEntry", "`core` and `sharer` of these three"),
    ("MemoryEntry", "`[memory]`"),
    ("CyclicEntry", "`[cyclic]`"),
    ("ColorEntry", "`[[color]]`"),
    ("ServerEntry", "`[[server]]`"),
    ("GroupEntry", "`[[group]]`"),
    ("SimulationEntry", "`[simulation]`"),
    ("CoreSection", "`[simulation.cores]`"),
    ("CacheSection", "`[simulation.caches]`"),
    ("CacheSize", "`l1` and `l2` of the caches"),
    ("LastLevelSize", "`llc` of the caches"),
    ("ControllerSection", "`[simulation.controller]`"),
    ("NumaSection", "`[simulation.numa]`"),
    ("SystemSection", "`[simulation.system]`"),
    ("BandwidthSection", "`[simulation.bandwidth]`"),
    ("TableSection", "`[simulation.table]`"),
    ("SlotSection", "`[[simulation.table.slot]]`"),
    ("TimetableSection", "`[simulation.timetable]`"),
    ("WindowSection", "`[[simulation.timetable.window]]`"),
]


def kind(property, definitions):
    """The type of a property in words."""
    if "$ref" in property:
        name = property["$ref"].rsplit("/", 1)[1]
        words = [choice["const"] for choice in definitions[name].get("oneOf", []) if "const" in choice]
        if words:
            return ", ".join(f"`{word}`" for word in words)
        return {"Time": "time"}.get(name, "table")
    if "anyOf" in property:
        return " or ".join(dict.fromkeys(kind(one, definitions) for one in property["anyOf"] if one.get("type") != "null"))
    word = property.get("type")
    if isinstance(word, list):
        word = next(one for one in word if one != "null")
    if word == "array":
        return "list of " + kind(property["items"], definitions) + "s"
    return {"string": "text", "integer": "integer", "boolean": "`true`, `false`", None: "integer, or a list as text"}.get(word, word)


def table(heading, entry, definitions):
    lines = [f"### {heading}", "", entry["description"].split("\n\n")[0].replace("\n", " "), ""]
    lines += ["| field | type | meaning |", "|---|---|---|"]
    needed = entry.get("required", [])
    for name, property in sorted(entry["properties"].items(), key=lambda item: (item[0] != "name", item[0])):
        text = " ".join(property.get("description", "").split())
        text += " Required." if name in needed and "Required." not in text else ""
        lines.append(f"| `{name}` | {kind(property, definitions)} | {text} |")
    return lines + [""]


schema = json.load(sys.stdin)
definitions = schema["$defs"]
known = {name for name, _ in TABLES}
missing = [name for name, entry in definitions.items() if "properties" in entry and name not in known]
if missing:
    sys.exit(f"fields: no heading for {', '.join(missing)}: add them to TABLES")
tables = [line for name, heading in TABLES for line in table(heading, definitions[name] if name else schema, definitions)]
page = PAGE.read_text()
before, rest = page.split(BEGIN)
after = rest.split(END)[1]
PAGE.write_text(before + BEGIN + "\n\n" + re.sub(r"\n{3,}", "\n\n", "\n".join(tables)) + "\n" + END + after)
