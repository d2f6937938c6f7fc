"""Embeddings order what is shown, and may fail."""

from __future__ import annotations

import math
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langchain_core.embeddings import DeterministicFakeEmbedding
from langgraph.store.memory import InMemoryStore

from loopguard_lg import ranking
from loopguard_lg.adapters.onnx_embeddings import OnnxEmbeddings
from loopguard_lg.adapters.relevance import Relevance
from loopguard_lg.adapters.shared_store import Entry
from tests.middleware.runs import Way, ainvoke, ask, invoke, notes
from tests.shared_pad.agents import ACME, NOON, agent, looping
from tests.shared_pad.onnx_model import write
from tests.test_layering import loaded_by

WORDS = ["[UNK]", "billing", "invoice", "server", "port", "colour"]


class Counting:
    """Vectors that count words; notes what it was given."""

    def __init__(self, words: list[str] = WORDS) -> None:
        self.words = words
        self.batches: list[list[str]] = []

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """How often each word is in each text, and one number for all of them."""
        self.batches.append(texts)
        return [[0.1, *(float(text.count(w)) for w in self.words)] for text in texts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that gives each word a direction of its own, and its tokenizer."""
    return write(tmp_path_factory.mktemp("model"), WORDS)


directions = st.lists(st.floats(-9, 9), min_size=3, max_size=3).filter(
    lambda v: math.hypot(*v) > 0.1
)


@given(directions, st.lists(directions, max_size=9), st.integers(0, 9))
def test_the_best_come_once_each(task: Any, others: Any, most: int) -> None:
    """No more than are wanted, the most relevant one first."""
    vectors = [ranking.unit(vector) for vector in others]
    picked = ranking.best(ranking.unit(task), vectors, most)
    fits = [ranking.similarity(ranking.unit(task), vector) for vector in vectors]

    assert len(picked) == len(set(picked)) == min(most, len(vectors))
    assert not picked or fits[picked[0]] == pytest.approx(max(fits))


def test_a_paraphrase_takes_no_second_place() -> None:
    """What is new beside what was picked goes before what says the same."""
    said, other = [0.6, 0.8, 0.0], [0.5, 0.0, 0.866]

    assert ranking.best([1.0, 0.0, 0.0], [said, said, other], 2) == [0, 2]


@pytest.mark.parametrize("vector", [[], [0.0, 0.0], [math.nan, 1.0], [math.inf]])
def test_a_vector_without_direction_is_refused(vector: list[float]) -> None:
    """Nothing could be compared with it."""
    with pytest.raises(ValueError, match="no direction"):
        ranking.unit(vector)


def test_what_fits_the_task_comes_first() -> None:
    """However far down it stands."""
    texts = ["the colour", "a server", "the port of the server", "an invoice"]

    assert Relevance(Counting()).pick("which port?", texts, 1) == [2]


def test_any_embeddings_of_langchain_will_do() -> None:
    """The task itself is what is most like it."""
    model = DeterministicFakeEmbedding(size=32)

    assert Relevance(model).pick("task", ["a", "task", "b"], 3)[0] == 1


def test_texts_go_to_the_model_in_batches_and_once() -> None:
    """Equal texts are one, and what was asked before is kept."""
    model = Counting()
    relevance = Relevance(model, batch=2)
    relevance.pick("port", ["server", "colour", "server"], 2)
    relevance.pick("port", ["colour", "invoice"], 2)

    assert model.batches == [["port", "server"], ["colour"], ["invoice"]]


def test_nothing_is_asked_of_the_model_twice() -> None:
    """Not even for another task among the same texts."""
    model = Counting()
    relevance = Relevance(model)
    relevance.pick("port", ["server"], 1)

    assert relevance.pick("server", ["port"], 1) == [0]
    assert len(model.batches) == 1


def test_no_more_vectors_are_kept_than_wanted() -> None:
    """The ones that were used longest ago go."""
    model = Counting()
    relevance = Relevance(model, cached=2)
    for text in ("server", "colour", "server"):
        relevance.pick("port", [text], 1)

    assert model.batches == [["port", "server"], ["colour"], ["server"]]


@pytest.mark.parametrize(
    "answer",
    [
        lambda texts: [],
        lambda texts: [[0.0, 0.0]] * len(texts),
        lambda texts: [[1.0] * n for n, _ in enumerate(texts, 1)],
        lambda texts: 1 / 0,
    ],
    ids=["too few", "no direction", "uneven", "raises"],
)
def test_a_model_that_fails_is_left_out(
    answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The texts keep their order, and the log says why."""

    class Failing:
        embed_documents = staticmethod(answer)

    assert Relevance(Failing()).pick("task", ["a", "b", "c"], 2) == [0, 1]
    assert "the embeddings are left out" in caplog.text


def test_a_model_that_hangs_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """After its time, and after some such calls without being asked."""
    let_go = threading.Event()

    class Hanging:
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            let_go.wait()
            return [[1.0]] * len(texts)

    relevance = Relevance(Hanging(), timeout=0.001)
    picks = [relevance.pick("task", ["a", "b"], 2) for _ in range(6)]
    let_go.set()

    assert picks == [[0, 1]] * 6
    assert "no room" in caplog.text


def test_a_model_that_answers_is_asked_again_and_again() -> None:
    """Only those that hang use up their threads."""
    model = Counting()
    relevance = Relevance(model, timeout=60)
    for n in range(9):
        relevance.pick("port", [f"server {n}"], 1)

    assert len(model.batches) == 9


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"batch": 0}])
def test_a_wrong_setting_is_refused(wrong: dict[str, Any]) -> None:
    """The message names it."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Relevance(Counting(), **wrong)


def test_an_onnx_model_is_loaded_from_files_and_runs(folder: Path) -> None:
    """The mean of the words' vectors, without the padding of shorter texts."""
    one, two = OnnxEmbeddings(folder).embed_documents(["port", "server port"])

    assert one == [0, 0, 0, 0, 1, 0]
    assert two == [0, 0, 0, 0.5, 0.5, 0]


def test_an_onnx_model_may_have_one_vector_for_each_text(tmp_path: Path) -> None:
    """It is taken as it is."""
    model = OnnxEmbeddings(write(tmp_path, WORDS, pooled=True))

    assert model.embed_documents(["server port"]) == [[0, 0, 0, 1, 1, 0]]


def test_an_onnx_model_reads_no_more_tokens_than_it_may(folder: Path) -> None:
    """The rest of a text is left out."""
    model = OnnxEmbeddings(folder / "model.onnx", folder / "tokenizer.json", tokens=1)

    assert model.embed_documents(["server port"]) == [[0, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("missing", ["model.onnx", "tokenizer.json"])
def test_a_model_that_is_not_there_is_named(tmp_path: Path, missing: str) -> None:
    """The message has the file that is missing."""
    for name in {"model.onnx", "tokenizer.json"} - {missing}:
        (tmp_path / name).touch()

    with pytest.raises(ValueError, match=missing):
        OnnxEmbeddings(tmp_path)


@pytest.mark.parametrize("way", [invoke, ainvoke], ids=["invoke", "ainvoke"])
def test_an_agent_is_shown_what_fits_its_task(way: Way, folder: Path) -> None:
    """However old it is beside what there is no room for."""
    store, fits = InMemoryStore(), "the port of the server is 8080"
    later = replace(ACME, clock=lambda: NOON + 9)
    ACME.write(store, ("acme",), [Entry(fits)])
    later.write(store, ("acme",), [Entry(f"colour of invoice {n}") for n in range(40)])
    relevance = Relevance(OnnxEmbeddings(folder), timeout=60)
    newest, fitting = looping(), looping()
    for model, shared in (
        (newest, later),
        (fitting, replace(later, relevance=relevance)),
    ):
        way(agent(model, store, shared), ask("which port has the server"), {})

    assert fits not in "".join(notes(newest))
    assert fits in "".join(notes(fitting))


def test_the_shared_scratchpad_needs_no_model() -> None:
    """Nothing of the extra `embeddings` is imported before it is used."""
    found = loaded_by("import loopguard_lg.adapters.middleware")

    assert not found & {"onnxruntime", "tokenizers"}
