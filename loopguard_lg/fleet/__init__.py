"""Budgets that many workers share, and the ledgers that they are drawn from.

`Fleet` goes into a guard as one argument. `MemoryLedger` serves one process;
`fleet.postgres.PostgresLedger` and `fleet.redis.RedisLedger` serve many.
"""

from loopguard_lg.fleet.ledger import Balance, BudgetLedger, Hold, MemoryLedger
from loopguard_lg.fleet.limits import Claim, FleetBudget
from loopguard_lg.fleet.settings import Fleet

__all__ = [
    "Balance",
    "BudgetLedger",
    "Claim",
    "Fleet",
    "FleetBudget",
    "Hold",
    "MemoryLedger",
]
