"""Twenty small tasks, to be checked, over a small repository and a support desk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from loopguard_lg.testing.sample import FILES, list_dir, read_file, search_docs

CUSTOMERS = {
    "Ada Brandt": "C1, ada@example.com, since 2019, plan gold",
    "Ben Okafor": "C2, ben@example.com, since 2022, plan basic",
    "Cleo Marsh": "C3, cleo@example.com, since 2024, plan silver",
}
ORDERS = {
    "1041": "customer C1, 2 lamps, shipped on 3 May, tracking ZX-77",
    "1042": "customer C2, 1 desk, not shipped, 249 euros",
    "1043": "customer C3, 4 chairs, returned on 9 May, refund due 316 euros",
    "1044": "customer C1, 1 shelf, lost on the way, shipped on 1 May",
}
RULES = {
    "refunds": "Refunds are paid within 14 days of the return.",
    "cancelling": "An order can be cancelled while it is not shipped.",
    "lost parcels": "For a lost parcel a replacement is sent at once.",
    "gold plan": "Customers with the plan gold have free shipping.",
}


@tool
def find_customer(name: str) -> str:
    """Find a customer by the full name."""
    return CUSTOMERS.get(name) or f"Error: no customer is called {name!r}."


@tool
def get_order(number: str) -> str:
    """Look up an order by its number."""
    return ORDERS.get(number) or f"Error: there is no order {number!r}."


@tool
def read_rule(topic: str) -> str:
    """Read the shop's rule on a topic."""
    known = f"No rule on {topic!r}. There are rules on: {', '.join(RULES)}."
    return RULES.get(topic.lower()) or known


@tool
def cancel_order(number: str) -> str:
    """Cancel an order that is not shipped yet."""
    if "not shipped" not in ORDERS.get(number, ""):
        return f"Error: order {number} can't be cancelled."
    return f"Order {number} is cancelled."


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """What an agent has to work with.

    Attributes:
        prompt: What it is told.
        tools: Its tools.
    """

    prompt: str
    tools: Sequence[BaseTool]


DESKS: Mapping[str, Desk] = {
    "repository": Desk(
        prompt="You answer questions about a repository. Use the tools. Answer in one "
        "line.\nThe repository has these files:\n" + "\n".join(FILES),
        tools=[search_docs, read_file, list_dir],
    ),
    "support": Desk(
        prompt="You work at the support desk of a shop. Use the tools. Answer in one "
        f"line.\nCustomers: {', '.join(CUSTOMERS)}.\nOrders: {', '.join(ORDERS)}.\n"
        f"Rules on: {', '.join(RULES)}.",
        tools=[find_customer, get_order, read_rule, cancel_order],
    ),
}


@dataclass(frozen=True, slots=True)
class Task:
    """A question, and by what its answer is known.

    Attributes:
        id: Its name.
        desk: A key of `DESKS`.
        question: What is asked.
        answer: What the last reply has to match, in any case.
        done: What a tool must have answered for it, in any case.
    """

    id: str
    desk: str
    question: str
    answer: str
    done: str = field(default="")

    def is_solved(self, messages: Sequence[BaseMessage]) -> bool:
        """Whether the last reply answers it, and what had to be done is done."""
        last = messages[-1] if messages else None
        if not isinstance(last, AIMessage) or last.tool_calls:
            return False
        results = [m.text for m in messages if isinstance(m, ToolMessage)]
        said = re.search(self.answer, last.text, re.IGNORECASE)
        made = any(re.search(self.done, text, re.IGNORECASE) for text in results)
        return bool(said) and (made or not self.done)


def _repository(id_: str, question: str, answer: str) -> Task:
    return Task(id_, "repository", question, answer)


def _support(id_: str, question: str, answer: str, done: str = "") -> Task:
    return Task(id_, "support", question, answer, done)


TASKS: Sequence[Task] = (
    _repository("port", "On which port does the server listen by default?", r"8471"),
    _repository("workers", "How many workers are set in the configuration?", r"\b4\b"),
    _repository("store", "What is the path of the store's database?", r"kiln\.db"),
    _repository("token", "After how many hours does a token expire?", r"\b12\b"),
    _repository("attempts", "How often is a failed job tried at most?", r"\b6\b"),
    _repository("timeout", "How many seconds is the timeout?", r"\b45\b"),
    _repository("python", "Which version of Python is needed?", r"3\.11"),
    _repository("urgent", "Which priorities can a job have?", r"low.*normal.*urgent"),
    _repository("start", "With which command is the server started?", r"kiln serve"),
    _repository("pause", "How does the pause between retries change?", r"doubl"),
    _repository("tokens", "In which file are tokens checked?", r"src/auth\.py"),
    _repository("release", "Which version brought priorities of jobs?", r"2\.1"),
    _support("mail", "What is the mail address of Ben Okafor?", r"ben@example\.com"),
    _support("plan", "Which plan does Cleo Marsh have?", r"silver"),
    _support("tracking", "What is the tracking code of order 1041?", r"ZX-77"),
    _support("refund", "How many euros are to be refunded for order 1043?", r"316"),
    _support("days", "Within how many days are refunds paid?", r"\b14\b"),
    _support("lost", "Order 1044 was lost. What does the rule say?", r"replace"),
    _support("shipping", "Does Ada Brandt pay for shipping?", r"\bno\b|free|not pay"),
    _support("cancel", "Cancel order 1042, then say so.", r"cancel", r"1042 is canc"),
)
"""Twelve over the repository, eight at the support desk."""
