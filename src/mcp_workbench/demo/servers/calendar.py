"""Dates and times in any time zone: now, days between, add days, weekday. Speaks both protocol eras."""

from __future__ import annotations

from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from mcp_workbench.demo.arguments import object_schema
from mcp_workbench.demo.server import Server
from mcp_workbench.demo.stdio import serve
from mcp_workbench.demo.tool import Tool, ToolError

if TYPE_CHECKING:
    from mcp_workbench.demo.arguments import Schema
    from mcp_workbench.demo.tool import JsonObject

# Every day of the calendar, and few enough for the arithmetic not to overflow before it is checked.
MAX_DAYS = 3_660_000
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SATURDAY = 5

_DATE: Schema = {"type": "string", "description": "A date as YYYY-MM-DD", "minLength": 10, "maxLength": 10}
_WEEKDAY: Schema = {"type": "string", "enum": list(_WEEKDAYS)}


def now(time_zone: str = "UTC") -> JsonObject:
    """The date, time and weekday there."""
    moment = datetime.now(_zone(time_zone))
    return {
        "time": moment.isoformat(timespec="seconds"),
        "weekday": _WEEKDAYS[moment.weekday()],
        "time_zone": time_zone,
    }


def days_between(start: str, end: str) -> JsonObject:
    """Days from `start` to `end`, negative if `end` is earlier, and how many of them are working days."""
    first, last = _day(start, "start"), _day(end, "end")
    return {"days": (last - first).days, "working_days": _working_days(min(first, last), max(first, last))}


def add_days(date: str, days: int) -> JsonObject:
    """The date so many days later, or earlier if negative."""
    try:
        later = _day(date, "date") + timedelta(days=days)
    except OverflowError:
        raise ToolError("The result is outside the years 1 to 9999") from None
    return {"date": later.isoformat(), "weekday": _WEEKDAYS[later.weekday()]}


def weekday(date: str) -> JsonObject:
    """The day of the week, and the week of the year by ISO 8601."""
    day = _day(date, "date")
    iso = day.isocalendar()
    return {"weekday": _WEEKDAYS[day.weekday()], "iso_week": f"{iso.year:04}-W{iso.week:02}"}


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # Names come from outside: they may be folders, paths or unreadable, besides being unknown.
    except (KeyError, ValueError, OSError):
        raise ToolError(f"Unknown time zone '{name}'. Use a name like UTC, Europe/Berlin or Asia/Tokyo") from None


def _day(text: str, name: str) -> date:
    with suppress(ValueError):
        day = date.fromisoformat(text)
        if day.isoformat() == text:  # week dates and the compact form are read too, but not promised
            return day
    raise ToolError(f"{name} must be a date as YYYY-MM-DD, for example 2026-07-28")


def _working_days(first: date, last: date) -> int:
    """Mondays to Fridays from `first` until the day before `last`."""
    weeks, rest = divmod((last - first).days, 7)
    return weeks * 5 + sum((first.weekday() + offset) % 7 < _SATURDAY for offset in range(rest))


TOOLS = (
    Tool(
        name="now",
        title="Current time",
        description="The current date, time and weekday in a time zone.",
        run=now,
        input=object_schema(
            {
                "time_zone": {
                    "type": "string",
                    "description": "An IANA name like Europe/Berlin",
                    "minLength": 1,
                    "maxLength": 100,
                    "default": "UTC",
                }
            },
            optional=["time_zone"],
        ),
        output=object_schema({"time": {"type": "string"}, "weekday": _WEEKDAY, "time_zone": {"type": "string"}}),
        repeatable=False,
    ),
    Tool(
        name="days_between",
        title="Days between dates",
        description="How many days lie between two dates, and how many of them are Mondays to Fridays.",
        run=days_between,
        input=object_schema({"start": _DATE, "end": _DATE}),
        output=object_schema({"days": {"type": "integer"}, "working_days": {"type": "integer"}}),
    ),
    Tool(
        name="add_days",
        title="Add days to a date",
        description="The date that lies a number of days after another, or before it if the number is negative.",
        run=add_days,
        input=object_schema(
            {"date": _DATE, "days": {"type": "integer", "minimum": -MAX_DAYS, "maximum": MAX_DAYS}},
        ),
        output=object_schema({"date": {"type": "string"}, "weekday": _WEEKDAY}),
    ),
    Tool(
        name="weekday",
        title="Day of the week",
        description="Which day of the week a date is, and its week of the year by ISO 8601.",
        run=weekday,
        input=object_schema({"date": _DATE}),
        output=object_schema({"weekday": _WEEKDAY, "iso_week": {"type": "string"}}),
    ),
)

SERVER = Server(
    name="calendar",
    title="Calendar",
    instructions="Calculates with dates. Dates are written YYYY-MM-DD.",
    tools=TOOLS,
    modern=True,
)

if __name__ == "__main__":
    serve(SERVER)
