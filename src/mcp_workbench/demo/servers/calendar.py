"""Dates and times in any time zone: now, days between, add days, weekday. Speaks both protocol eras."""

from __future__ import annotations

from contextlib import suppress
from datetime import date as Date  # noqa: N812 -- the tools have arguments named `date`
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from mcp_workbench.demo.server import JsonObject, Schema, Server, ToolError

MAX_DAYS = 3_660_000
"""Covers the whole calendar; date arithmetic can't overflow before the check."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_SATURDAY = 5

_STRING: Schema = {"type": "string"}
_INTEGER: Schema = {"type": "integer"}
_DATE: Schema = {"type": "string", "description": "A date as YYYY-MM-DD", "minLength": 10, "maxLength": 10}
_DAYS: Schema = {"type": "integer", "minimum": -MAX_DAYS, "maximum": MAX_DAYS}
_WEEKDAY: Schema = {"type": "string", "enum": list(_WEEKDAYS)}
_ZONE_NAME: Schema = {"description": "An IANA name like Europe/Berlin", "default": "UTC"}
_ZONE: Schema = {"type": "string", **_ZONE_NAME, "minLength": 1, "maxLength": 100}

SERVER = Server("calendar", "Calendar", "Calculates with dates. Dates are written YYYY-MM-DD.", modern=True)


@SERVER.tool(
    "Current time",
    {"time_zone": _ZONE},
    {"time": _STRING, "weekday": _WEEKDAY, "time_zone": _STRING},
    idempotentHint=False,
)
def now(time_zone: str = "UTC") -> JsonObject:
    """The current date, time and weekday in a time zone."""
    moment = datetime.now(_zone(time_zone))
    time = moment.isoformat(timespec="seconds")
    return {"time": time, "weekday": _WEEKDAYS[moment.weekday()], "time_zone": time_zone}


@SERVER.tool("Days between dates", {"start": _DATE, "end": _DATE}, {"days": _INTEGER, "working_days": _INTEGER})
def days_between(start: str, end: str) -> JsonObject:
    """How many days lie between two dates, and how many of them are Mondays to Fridays."""
    first, last = _day(start, "start"), _day(end, "end")
    return {"days": (last - first).days, "working_days": _working_days(min(first, last), max(first, last))}


@SERVER.tool("Add days to a date", {"date": _DATE, "days": _DAYS}, {"date": _STRING, "weekday": _WEEKDAY})
def add_days(date: str, days: int) -> JsonObject:
    """The date a number of days after another one, or before it if the number is negative."""
    try:
        later = _day(date, "date") + timedelta(days=days)
    except OverflowError:
        raise ToolError("The result is outside the years 1 to 9999") from None
    return {"date": later.isoformat(), "weekday": _WEEKDAYS[later.weekday()]}


@SERVER.tool("Day of the week", {"date": _DATE}, {"weekday": _WEEKDAY, "iso_week": _STRING})
def weekday(date: str) -> JsonObject:
    """The day of the week of a date, and its ISO 8601 week."""
    day = _day(date, "date")
    iso = day.isocalendar()
    return {"weekday": _WEEKDAYS[day.weekday()], "iso_week": f"{iso.year:04}-W{iso.week:02}"}


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    # A name from a client may be a folder, a path or undecodable.
    except (KeyError, ValueError, OSError):
        raise ToolError(f"Unknown time zone '{name}'. Use a name like UTC, Europe/Berlin or Asia/Tokyo") from None


def _day(text: str, name: str) -> Date:
    with suppress(ValueError):
        day = Date.fromisoformat(text)
        if day.isoformat() == text:  # Python also accepts week dates and the compact form
            return day
    raise ToolError(f"{name} must be a date as YYYY-MM-DD, for example 2026-07-28")


def _working_days(first: Date, last: Date) -> int:
    """Mondays to Fridays from `first` until the day before `last`."""
    weeks, rest = divmod((last - first).days, 7)
    return weeks * 5 + sum((first.weekday() + offset) % 7 < _SATURDAY for offset in range(rest))


if __name__ == "__main__":
    SERVER.run()
