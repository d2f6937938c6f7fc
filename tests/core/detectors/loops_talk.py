"""Loops of agents that plan, talk, and hand over."""

from __future__ import annotations

from loopguard_lg.steps import Compaction, Event, Tokens, Turn

from .runs import asks, call, does, says, turn

_PLANS = (
    ("Look at the parser", "Repair dates", "Write tests"),
    ("Inspect the parser module", "Fix date handling", "Add tests"),
    ("Study the parser", "Correct the dates", "Test it"),
    ("Review parser code", "Mend date parsing", "Cover with tests"),
)


def _todos(items: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"content": item, "status": "pending"} for item in items]


TALK: dict[str, tuple[str, int, list[Event]]] = {
    "one plan in other words": (
        "planner",
        3,
        [does("write_todos", "list updated", todos=_todos(p)) for p in _PLANS],
    ),
    "thinking aloud without acting": (
        "planner",
        4,
        [
            says(
                f"Round {n}. The parser must be read first. The dates are next. "
                "After that the tests are written. Finally all of it is run."
            )
            for n in range(6)
        ],
    ),
    "a supervisor and a worker": (
        "ping_pong",
        6,
        [
            turn(call("transfer_to_worker", "handed over to worker"), agent="boss")
            if n % 2 == 0
            else turn(
                call("transfer_back_to_boss", "handed back"),
                text="The answer is 42.",
                agent="worker",
            )
            for n in range(8)
        ],
    ),
    "two agents who thank each other": (
        "ping_pong",
        6,
        [
            says("Thank you!", "a") if n % 2 else says("You are welcome.", "b")
            for n in range(8)
        ],
    ),
    "compactions that free nothing": (
        "bloat",
        4,
        [
            does("list_dir", "9000 entries", path="."),
            *(Compaction(agent="agent") for _ in range(4)),
        ],
    ),
    "a context that is too large": (
        "bloat",
        2,
        [
            Turn(steps=(call("x", str(n)),), tokens=Tokens(input=300_000 * n))
            for n in range(3)
        ],
    ),
    "the same closing words": (
        "chanting",
        2,
        [says("All done. The report is in out/report.md.") for _ in range(4)],
    ),
    "empty replies": ("chanting", 2, [says("") for _ in range(4)]),
    "one sentence within one reply": (
        "chanting",
        0,
        [says("Let me check the file once more.\n" * 30)],
    ),
    "tools that do not exist": (
        "invalid",
        3,
        [
            does(name, f"Error: {name} is not a valid tool, try one of [read, write].")
            for name in ("open_url", "browse_page", "surf", "web_open")
        ],
    ),
    "arguments that never validate": (
        "invalid",
        3,
        [
            does(
                "create_event",
                "Error invoking tool: 1 validation error for Event\nfield required",
                error=True,
                title=f"Review {n}",
            )
            for n in range(4)
        ],
    ),
    "a person and an agent who don't listen": (
        "ping_pong",
        7,
        [
            event
            for _ in range(4)
            for event in (
                asks("I already told you my number."),
                says("Could you tell me your number?"),
            )
        ],
    ),
    "a task handed round by three": (
        "ping_pong",
        5,
        [
            turn(
                call(f"transfer_to_{'abc'[(n + 1) % 3]}", "ok", why=str(n)),
                agent="abc"[n % 3],
            )
            for n in range(9)
        ],
    ),
    "delegations whose answers begin the same": (
        "ping_pong",
        3,
        [
            does(
                "delegate",
                "I clicked 'Email us'. The page shows the contact form of the office, "
                "with the address, the telephone number and the opening hours; below "
                "them the fields for the name, the address and the question. "
                * 2
                + " ".join(f"seen {n * k}" for k in range(9)),
                to="surfer",
                task=f"Please write to the office and ask for the {what} of the house",
            )
            for n, what in enumerate(("price", "sale price", "lowest price", "cost"))
        ],
    ),
}
