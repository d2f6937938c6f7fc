"""Events and runs of every kind, the worst included."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from loopguard_lg import Policy, Verdict, decide
from loopguard_lg.memory import Memory
from loopguard_lg.steps import (
    Compaction,
    Event,
    Human,
    Nested,
    Progress,
    Step,
    Tokens,
    Turn,
)

DEFAULTS = Policy()

TOOLS = [
    "search",
    "read_file",
    "edit_file",
    "execute",
    "write_todos",
    "transfer_to_billing",
    "wait",
    "check_ci",
    "give_up",
    "made\nup 🦜 \ud800",
]

WORST = [
    "",
    " \n\t ",
    "\ud800" * 3_000,
    "検索結果は見つかりませんでした。" * 600,
    "🦜" * 2_000,
    "\x00\x1b[2J\u202e" * 500,
    "Error: ENOENT: no such file or directory 'x'",
    "2 failed, 3 passed in 0.12s",
    "AssertionError: 1 != 2\n" * 400,
    '{"a": [' * 900,
    "0x" + "f" * 9_000,
]

texts = st.text(max_size=40) | st.sampled_from(WORST)
amounts = st.integers(0, 10**9)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
named = st.sampled_from(
    ["path", "file_path", "query", "command", "todos", "content", "offset", "password"]
)
tokens = st.builds(
    Tokens, input=amounts, output=amounts, cached=amounts, estimated=st.booleans()
)
steps = st.builds(
    Step,
    tool=st.sampled_from(TOOLS),
    args=st.dictionaries(named | st.text(max_size=9), values, max_size=3),
    result=texts,
    error=st.none() | st.booleans(),
    state=st.none() | texts,
    changed_state=st.none() | st.booleans(),
    seconds=st.none() | st.floats(0, 1e6),
    blocked=st.booleans(),
    cached=st.booleans(),
)
turns = st.builds(
    Turn,
    agent=st.sampled_from(["", "main", "critic"]),
    text=texts,
    steps=st.lists(steps, max_size=4).map(tuple),
    tokens=st.none() | tokens,
    cost=st.none() | st.floats(0, 1e6),
    seconds=st.none() | st.floats(0, 1e6),
    t=st.none() | st.floats(0, 1e9),
    nested=st.lists(
        st.builds(Nested, model_calls=amounts, tokens=tokens), max_size=2
    ).map(tuple),
    progress=st.just("") | texts,
)
events = st.one_of(
    turns,
    turns,
    st.builds(Human, text=texts, answer=st.booleans()),
    st.builds(Compaction, tokens=st.none() | amounts),
    st.builds(Progress, note=texts),
)


def call(result: str = "", tool: str = "search", **args: Any) -> Turn:
    """A turn with one call."""
    return Turn(steps=(Step(tool=tool, args=args, result=result),))


def looping_run(turns: int) -> Iterator[Event]:
    """The same few calls over and over, with edits that fail between them."""
    for n in range(turns):
        yield [
            call("[]", query="x"),
            call("not applied: no match", "edit_file", path="a.py", new="y"),
            call("1 failed, 2 passed", "execute", command="pytest"),
        ][n % 3]


def random_run(turns: int) -> Iterator[Event]:
    """Calls with new arguments and new results, in batches, by several agents."""
    rng = random.Random(1)
    for _ in range(turns):
        calls = [
            Step(
                tool=rng.choice(TOOLS),
                args={"path": f"src/{rng.random()}.py", "n": rng.getrandbits(64)},
                result=rng.randbytes(rng.randrange(400)).hex(" ", 8),
            )
            for _ in range(rng.randrange(5))
        ]
        agent = f"agent {rng.getrandbits(32)}"
        yield Turn(
            text=str(rng.random()), steps=tuple(calls), agent=agent, t=rng.random()
        )


def foreign_run(turns: int) -> Iterator[Event]:
    """Long texts without a Latin letter in names, arguments and results."""
    rng = random.Random(1)
    for _ in range(turns):
        letters = [chr(rng.randrange(0x4E00, 0x9FFF)) for _ in range(300)]
        text = "".join(letters) * 4
        step = Step(tool=text[:64], args={text[:30]: text}, result="\n".join(letters))
        yield Turn(text=text, steps=(step,), agent=text[:40])


def run(
    *events: Event, policy: Policy = DEFAULTS, memory: Memory | None = None
) -> tuple[list[Verdict], Memory]:
    """The verdicts on these events, and the memory after them."""
    verdicts = []
    memory = memory or {}
    for event in events:
        verdict, memory = decide(policy, memory, event)
        verdicts.append(verdict)
    return verdicts, memory


def last(*events: Event, policy: Policy = DEFAULTS) -> Verdict:
    """The verdict on the last of these events."""
    return run(*events, policy=policy)[0][-1]


def actions(*events: Event, policy: Policy = DEFAULTS) -> list[str]:
    """What is to be done after each of these events."""
    return [verdict.action for verdict in run(*events, policy=policy)[0]]


def fresh_reads(count: int) -> list[Turn]:
    """Reads that each bring something new."""
    words = ["amber", "birch", "cedar", "dove", "elm", "fern"]
    return [
        call(f"{w} is {w[::-1]}\nand more of {w}", "read_file", path=f"{w}.txt")
        for w in words[:count]
    ]
