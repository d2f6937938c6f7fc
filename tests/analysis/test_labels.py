"""What people say of runs, and which runs they are asked about."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, strategies as st

from loopguard_lg.analysis.causes import CAUSES, breakdown
from loopguard_lg.analysis.labels import (
    KINDS,
    Label,
    add_label,
    read_labels,
    sample,
    write_labels,
)
from loopguard_lg.errors import LoopGuardError, TraceFormatError


def test_labels_are_read_by_id(tmp_path: Path) -> None:
    """A label file is JSON lines; unknown keys are kept."""
    file = tmp_path / "labels.jsonl"
    file.write_text(
        '{"id": "a", "loop": true, "kind": "churn", "onset_step": 4, "who": "me"}\n\n'
        '{"id": "b", "loop": "unclear"}\n'
    )

    assert read_labels(file) == {
        "a": Label(loop=True, kind="churn", onset=4, extra={"who": "me"}),
        "b": Label(loop="unclear"),
    }


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "unexpected end"),
        ('{"loop": true}', "a label is an object with an `id`"),
        ('{"id": "a", "loop": "no"}', "`loop` is true, false"),
        ('{"id": "a", "loop": 1}', "`loop` is true, false"),
        ('{"id": "a", "loop": true, "onset_step": "4"}', "`onset_step` is a whole"),
        ('{"id": "a", "loop": true, "onset_step": -1}', "number from 0 on or null"),
        ('{"id": "a", "loop": true, "kind": "repaet"}', "`kind` is null or one of"),
        ('{"id": "a", "loop": true, "cause": "fate"}', "`cause` is null or one of"),
    ],
)
def test_a_wrong_label_is_named(tmp_path: Path, line: str, problem: str) -> None:
    """An error says which line of the labels is wrong, and how."""
    file = tmp_path / "labels.jsonl"
    file.write_text('{"id": "b", "loop": false}\n' + line)

    with pytest.raises(TraceFormatError, match=rf"labels\.jsonl:2: .*{problem}"):
        read_labels(file)


def test_a_kind_of_ones_own_can_be_known(tmp_path: Path) -> None:
    """Detectors that a policy brings along have kinds that labels may use."""
    file = tmp_path / "labels.jsonl"
    file.write_text('{"id": "a", "loop": true, "kind": "mine"}')

    assert read_labels(file, ["mine"])["a"].kind == "mine"


def test_a_file_without_labels_is_an_error(tmp_path: Path) -> None:
    """Nothing to compare with is no success."""
    file = tmp_path / "labels.jsonl"
    file.write_text("\n\n")

    with pytest.raises(LoopGuardError, match="there is no label in it"):
        read_labels(file)


def labels() -> st.SearchStrategy[dict[str, Label]]:
    """Any labels."""
    one = st.builds(
        Label,
        loop=st.sampled_from([True, False, "unclear"]),
        kind=st.sampled_from([None, *KINDS]),
        onset=st.none() | st.integers(0, 99),
        reason=st.text(),
        cause=st.sampled_from([None, *CAUSES]),
    )
    return st.dictionaries(st.text(), one, min_size=1, max_size=4)


@given(labels())
def test_what_is_written_is_read_back(known: dict[str, Label]) -> None:
    """Writing and reading lose nothing, whatever is in a reason."""
    with TemporaryDirectory() as folder:
        write_labels(Path(folder, "l.jsonl"), known)

        assert read_labels(Path(folder, "l.jsonl")) == known
        assert [path.name for path in Path(folder).iterdir()] == ["l.jsonl"]


def test_a_failed_write_keeps_the_old_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk costs the newest label, not the file."""
    file = tmp_path / "l.jsonl"
    write_labels(file, {"a": Label(loop=True)})

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_labels(file, {"a": Label(loop=False), "b": Label(loop=True)})

    assert read_labels(file) == {"a": Label(loop=True)}
    assert list(tmp_path.iterdir()) == [file]


@given(labels(), labels())
def test_labels_that_are_added_hold(first: dict[str, Label], more: Any) -> None:
    """Each is a line at the end, also of a file that lacks its last line's end."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "l.jsonl")
        write_labels(file, first)
        file.write_bytes(file.read_bytes().rstrip())
        for name, label in more.items():
            add_label(file, name, label)

        assert read_labels(file) == first | more
        assert len(file.read_bytes().splitlines()) == len(first) + len(more)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_label_that_can_t_be_added_is_an_error() -> None:
    """A full disk costs the newest label alone, and is said."""
    with pytest.raises(OSError, match="No space left"):
        add_label("/dev/full", "a", Label(loop=True))


STRATA = st.lists(st.tuples(st.text(max_size=3), st.sampled_from("abc")), max_size=40)
RUNS = STRATA.map(
    lambda pairs: [(f"{n}{name}", s) for n, (name, s) in enumerate(pairs)]
)


@given(RUNS, st.integers(0, 30), st.randoms(use_true_random=False))
def test_a_sample_is_the_same_in_any_order(runs: Any, most: int, random: Any) -> None:
    """Two people with the same recordings label the same runs."""
    drawn = sample(runs, most)

    random.shuffle(runs)
    assert sample(runs, most) == drawn
    assert len(drawn) == len(set(drawn)) == min(most, len(runs))


@given(RUNS, st.integers(3, 30))
def test_a_sample_has_every_stratum_in_its_share(runs: Any, most: int) -> None:
    """None is left out, and none has two more than its share beyond the one."""
    strata, drawn = dict(runs), sample(runs, most)
    for name, size in Counter(strata.values()).items():
        part = sum(strata[run] == name for run in drawn)

        assert 1 <= part <= max(1, size * most / max(len(runs), 1) + 1)


def test_another_seed_draws_other_runs() -> None:
    """The choice is not that of the first ones in the file."""
    runs = [(str(n), "") for n in range(100)]

    assert sample(runs, 10, seed=1) != sample(runs, 10, seed=2)
    assert sample(runs, 10) != [str(n) for n in range(10)]


def test_causes_are_counted_by_kind() -> None:
    """Only loops count; those without a cause are said to have none."""
    known = {
        "a": Label(loop=True, kind="repeat", cause="no_exit"),
        "b": Label(loop=True, kind="repeat", cause="no_exit"),
        "c": Label(loop=True, kind="churn"),
        "d": Label(loop=False, cause="other"),
    }

    assert breakdown(known) == [
        {"name": "no_exit", "kind": "repeat", "runs": 2},
        {"name": "(not said)", "kind": "churn", "runs": 1},
    ]
    assert breakdown({"c": known["c"]}) == []


def test_the_page_explains_every_cause() -> None:
    """What can be chosen is in the documentation, word for word."""
    page = Path(__file__).parents[2].joinpath("docs/label.md").read_text("utf-8")

    for name, meaning in CAUSES.items():
        assert f"| `{name}` | {meaning} |" in page
