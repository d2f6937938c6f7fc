"""A ledger in Redis: a hash for each key, and a Lua script for each act.

Plain Redis will do. In a cluster, put a hash tag into the prefix, as in `{fleet}`: all
keys of one call have to be in one place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import redis.asyncio as redis

from loopguard_lg.budgets import Exceeded
from loopguard_lg.fleet.background import ServerLedger
from loopguard_lg.fleet.ledger import Balance, Hold
from loopguard_lg.fleet.limits import GRACE

# A hash has the sum in `spent`, and a hold as `h:<id>` = "<amount> <expires>". Lua
# numbers go back as whole ones, so sums are texts.
_COUNTED = """
local function taken(key, now)
  local spent, held, all = 0, 0, redis.call('HGETALL', key)
  for i = 1, #all, 2 do
    if all[i] == 'spent' then
      spent = tonumber(all[i + 1])
    else
      local amount, expires = all[i + 1]:match('(%S+) (%S+)')
      if tonumber(expires) > now then
        held = held + tonumber(amount)
      else
        redis.call('HDEL', key, all[i])
      end
    end
  end
  return spent, held
end
local function text(number) return string.format('%.17g', number) end
local function ends(key, left)
  if tonumber(left) > 0 then redis.call('PEXPIRE', key, left) end
end
"""
_RESERVE = (
    _COUNTED
    + """
local now, id, expires = tonumber(ARGV[1]), ARGV[2], ARGV[3]
for i, key in ipairs(KEYS) do
  local amount, allowed = tonumber(ARGV[i * 3 + 1]), tonumber(ARGV[i * 3 + 2])
  local spent, held = taken(key, now)
  local sum = spent + held
  if sum >= allowed or sum + amount > allowed then return {i, text(sum)} end
end
for i, key in ipairs(KEYS) do
  redis.call('HSET', key, 'h:' .. id, ARGV[i * 3 + 1] .. ' ' .. expires)
  ends(key, ARGV[i * 3 + 3])
end
return {0, ''}
"""
)
_SETTLE = (
    _COUNTED
    + """
for i, key in ipairs(KEYS) do
  redis.call('HDEL', key, 'h:' .. ARGV[1])
  local spent = tonumber(redis.call('HGET', key, 'spent') or '0')
  redis.call('HSET', key, 'spent', text(spent + tonumber(ARGV[i * 2])))
  ends(key, ARGV[i * 2 + 1])
end
"""
)
_BALANCE = (
    _COUNTED
    + """
local spent, held = taken(KEYS[1], tonumber(ARGV[1]))
return {text(spent), text(held)}
"""
)


class RedisLedger(ServerLedger):
    """Keeps the sums of a fleet in Redis, which has to keep them when it restarts.

    Args:
        url: Where it is, as for `redis.Redis.from_url`.
        timeout: Seconds that one act may take, connecting included.
        prefix: What its keys begin with.
    """

    def __init__(
        self, url: str, *, timeout: float = 2.0, prefix: str = "loopguard:fleet:"
    ) -> None:
        super().__init__(timeout=timeout)
        self.url = url
        self.prefix = prefix
        self._made: tuple[int, redis.Redis] | None = None

    async def _reserve(self, hold: Hold, now: float) -> Exceeded | None:
        args: list[Any] = [repr(now), hold.id, repr(hold.expires)]
        for claim in hold.claims:
            args += [repr(claim.amount), repr(claim.allowed), _left(claim.ends, now)]
        at, taken = await self._run(_RESERVE, self._keys(hold), args)
        return hold.claims[at - 1].exceeded(float(taken)) if at else None

    async def _settle(self, hold: Hold, spent: Sequence[float], now: float) -> None:
        args: list[Any] = [hold.id]
        for claim, amount in zip(hold.claims, spent, strict=True):
            args += [repr(amount), _left(claim.ends, now)]
        await self._run(_SETTLE, self._keys(hold), args)

    async def _balance(self, key: str, now: float) -> Balance:
        spent, held = await self._run(_BALANCE, [self.prefix + key], [repr(now)])
        return Balance(spent=float(spent), held=float(held))

    def _keys(self, hold: Hold) -> list[str]:
        return [self.prefix + claim.key for claim in hold.claims]

    async def _run(self, script: str, keys: list[str], args: list[Any]) -> Any:
        return await self._client().register_script(script)(keys, args)

    def _client(self) -> redis.Redis:
        if self._made is None or self._made[0] != self._process:
            self._made = (self._process, redis.Redis.from_url(self.url))
        return self._made[1]

    async def _close(self) -> None:
        if self._made is not None and self._made[0] == self._process:
            await self._made[1].aclose()
        self._made = None


def _left(ends: float | None, now: float) -> int:
    """After how many milliseconds Redis may forget a key; 0 for never."""
    return 0 if ends is None else max(1, round((ends + GRACE - now) * 1000))
