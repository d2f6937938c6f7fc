"""A worker that draws from a fleet's budget until nothing is left.

    python -m tests.servers.drawer URL postgres|redis_url|forked

Prints how many calls it got.
"""

from __future__ import annotations

import os
import sys
from uuid import uuid4

from loopguard_lg.budgets import Budget
from loopguard_lg.fleet import BudgetLedger, FleetBudget, Hold
from loopguard_lg.fleet.limits import claims
from loopguard_lg.fleet.postgres import PostgresLedger
from loopguard_lg.fleet.redis import RedisLedger

NOW = 1_700_000_000.0


def drawn(ledger: BudgetLedger, name: str, allowed: int) -> int:
    """How many calls it gets, each of them settled."""
    budget = FleetBudget(Budget(model_calls=allowed), name=name)
    for got in range(1_000):
        claimed = claims([budget], {}, {"model_calls": 1}, NOW)
        hold = Hold(id=uuid4().hex, claims=claimed, expires=NOW + 60)
        if ledger.reserve(hold, NOW) is not None:
            return got
        ledger.settle(hold, [1], NOW)
    raise AssertionError("no limit holds")


def forked(ledger: BudgetLedger) -> None:
    """Draw, then draw in a child and here at once."""
    drawn(ledger, uuid4().hex, 1)
    child = os.fork()
    got = drawn(ledger, f"{os.getpid()} {uuid4().hex}", 1)
    os.write(1, f"{got}\n".encode())
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)


def main(url: str, what: str) -> None:
    """Draw from the server at `url`."""
    ledger = RedisLedger(url) if what == "redis_url" else PostgresLedger(url)
    if what == "forked":
        forked(ledger)
    else:
        sys.stdout.write(f"{drawn(ledger, 'drawer', 40)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
