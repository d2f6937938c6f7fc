"""Who holds which file, who waits for whom: the rules of the locks, as pure functions.

A table is plain data, the same in every store:

    {"held": {path: [agent, since, until]}, "waits": [[agent, path, since, until]],
     "lost": {agent: [paths taken from it, newest last]}}

Locks and waits are leases: what is not renewed until its time is gone with the next
call. Times are the store's, in seconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from loopguard_lg.errors import WorkspaceError, install_hint

Table: TypeAlias = dict[str, Any]

_LOST = 20
"""Most paths that are remembered as taken from one agent."""
_LOSERS = 100
"""Most agents of which that is remembered."""


class Grant(NamedTuple):
    """The answer to who wants a file.

    Attributes:
        held: It is the asker's now.
        by: Who holds it, or is next in line for it.
        until: When that lease ends; 0.0 for who is only in line.
        freed: (path, agent) of locks that were taken away to end a deadlock.
        again: It was taken away from the asker before: others may have changed it.
    """

    held: bool
    by: str
    until: float = 0.0
    freed: tuple[tuple[str, str], ...] = ()
    again: bool = False


def fresh() -> Table:
    """A table in which nobody holds anything."""
    return {"held": {}, "waits": [], "lost": {}}


def acquire(
    table: Table, path: str, agent: str, now: float, lease: float
) -> tuple[Table, Grant]:
    """Give a file to an agent, or note that it waits for it.

    Whoever waits longest gets it first. A wait that closes a circle ends it: the oldest
    lock in the circle is taken away from its holder.
    """
    table = live(table, now)
    freed: list[tuple[str, str]] = []
    grant = _granted(table, path, agent, now, lease)
    if grant is None:
        table = _waiting(table, path, agent, now, lease)
        while found := deadlock(table):
            freed.append(min(found, key=lambda lock: table["held"][lock[0]][1]))
            table = _taken(table, *freed[-1])
        grant = _granted(table, path, agent, now, lease)
    if grant is not None:
        held = {**table["held"], path: [agent, grant[0], grant[1]]}
        again = path in table["lost"].get(agent, ())
        table = {**_found(_without_wait(table, agent, path), agent, path), "held": held}
        return table, Grant(True, agent, grant[1], tuple(freed), again)
    holder, _, until = table["held"].get(path) or (_first(table, path), 0.0, 0.0)
    return table, Grant(False, holder, until, tuple(freed))


def _granted(
    table: Table, path: str, agent: str, now: float, lease: float
) -> tuple[float, float] | None:
    """Since when and until when a file is an agent's, if it may have it."""
    holder, since, _ = table["held"].get(path, (None, now, 0.0))
    if holder not in (None, agent):
        return None
    if holder is None and _first(table, path) not in ("", agent):
        return None
    return since, now + lease


def _first(table: Table, path: str) -> str:
    waits = [(since, agent) for agent, p, since, _ in table["waits"] if p == path]
    return min(waits)[1] if waits else ""


def _waiting(table: Table, path: str, agent: str, now: float, lease: float) -> Table:
    """With a wait, as old as it is already."""
    mine = [w for w in table["waits"] if w[:2] == [agent, path]]
    since = mine[0][2] if mine else now
    rest = _without_wait(table, agent, path)
    return {**rest, "waits": [*rest["waits"], [agent, path, since, now + lease]]}


def _without_wait(table: Table, agent: str, path: str) -> Table:
    waits = [wait for wait in table["waits"] if wait[:2] != [agent, path]]
    return {**table, "waits": waits}


def _taken(table: Table, path: str, agent: str) -> Table:
    held = {p: lock for p, lock in table["held"].items() if p != path}
    lost = [*table["lost"].get(agent, ()), path][-_LOST:]
    losers = [item for item in table["lost"].items() if item[0] != agent]
    losers = [*losers, (agent, lost)][-_LOSERS:]
    return {**table, "held": held, "lost": dict(losers)}


def _found(table: Table, agent: str, path: str) -> Table:
    """Without the note that a lock was taken away."""
    lost = [p for p in table["lost"].get(agent, ()) if p != path]
    others = {who: paths for who, paths in table["lost"].items() if who != agent}
    return {**table, "lost": {**others, agent: lost} if lost else others}


def live(table: Table, now: float) -> Table:
    """Without the leases that have ended."""
    return {
        **table,
        "held": {p: lock for p, lock in table["held"].items() if lock[2] > now},
        "waits": [wait for wait in table["waits"] if wait[3] > now],
    }


def renew(table: Table, agent: str, now: float, lease: float) -> Table:
    """With every lock that an agent still holds extended."""
    table = live(table, now)
    held = {
        path: [who, since, now + lease if who == agent else until]
        for path, (who, since, until) in table["held"].items()
    }
    return {**table, "held": held}


def release(table: Table, agent: str, path: str | None = None) -> Table:
    """Without an agent's lock on a file, and its wait for it; `None`: on all files."""

    def gone(who: str, where: str) -> bool:
        return who == agent and path in (None, where)

    held, waits, lost = table["held"], table["waits"], table["lost"]
    return {
        "held": {p: lock for p, lock in held.items() if not gone(lock[0], p)},
        "waits": [wait for wait in waits if not gone(wait[0], wait[1])],
        "lost": {who: p for who, p in lost.items() if path or who != agent},
    }


def clear(table: Table, agent: str) -> Table:
    """Without anything of an agent's, under its name alone or with a thread's."""
    holders = {lock[0] for lock in table["held"].values()}
    for name in holders | {wait[0] for wait in table["waits"]} | {*table["lost"]}:
        if name == agent or name.startswith(f"{agent}/"):
            table = release(table, name)
    return table


def edges(table: Table) -> Iterable[tuple[str, str, str]]:
    """(who waits, for whom, for which file)."""
    for agent, path, *_ in table["waits"]:
        holder = table["held"].get(path, (agent,))[0]
        if holder != agent:
            yield agent, holder, path


def deadlock(table: Table) -> list[tuple[str, str]]:
    """(path, agent) of the locks of a circle of waits; none where there is no circle.

    Raises:
        WorkspaceError: networkx is missing.
    """
    try:
        import networkx
    except ImportError:
        raise WorkspaceError(
            f"locks need networkx: install {install_hint('workspace')}"
        ) from None
    waits = networkx.DiGraph()
    for waiter, holder, path in edges(table):
        waits.add_edge(waiter, holder, path=path)
    try:
        circle = networkx.find_cycle(waits)
    except networkx.NetworkXNoCycle:
        return []
    return [(waits.edges[edge]["path"], edge[1]) for edge in circle]


def report(table: Table, now: float) -> dict[str, Any]:
    """Who holds what and who waits for whom, as plain data for people."""
    table = live(table, now)
    return {
        "held": {path: lock[0] for path, lock in sorted(table["held"].items())},
        "waits": [
            {"agent": waiter, "for": holder, "path": path}
            for waiter, holder, path in sorted(edges(table))
        ],
        "lost": {agent: list(paths) for agent, paths in sorted(table["lost"].items())},
    }
