"""Recorded model traffic, replayed to the byte: what is sent has to be what was sent.

A recording is matched on method, scheme, path, query and body. The host is not part of
it: it is replaced by a placeholder, so a test may use any base URL. Keys, home
directories and all headers but a few never reach the file.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vcr import VCR
from vcr.cassette import Cassette, CassetteContextDecorator
from vcr.persisters.filesystem import FilesystemPersister
from vcr.record_mode import RecordMode
from vcr.request import Request
from vcr.serialize import serialize

from loopguard_lg import redaction
from loopguard_lg.testing import bodies
from loopguard_lg.wholefiles import write_whole

PLACEHOLDER = "model.invalid"
"""Stands for the host of every recorded request."""

MATCH_ON = ("method", "scheme", "path", "query", "body")
"""What a request and a recorded one must have in common."""

KEPT_HEADERS = frozenset({"content-type", "retry-after", "anthropic-version"})
"""All other headers are left out, of requests and of responses."""

HOMES = re.compile(
    r"(?:/home|/Users)/[\w.-]+|(?<![\w.])/root(?=/)|[A-Z]:\\+Users\\+\w+"
)
"""What looks like somebody's home directory."""

_QUERY_KEYS = ("key", "api_key", "api-key", "token", "access_token")
_SHOWN_DIFFERENCES = 6
_SHOWN_CHARACTERS = 100


def scrub(text: str) -> str:
    """`text` without secrets and home directories.

    Only rules that are the same everywhere are used: what is sent on replay has to be
    scrubbed as it was on recording.
    """
    return HOMES.sub("~", redaction.masked(text))


class Scrubber:
    """Takes out of requests and responses what does not belong into a file."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()

    def request(self, request: Request) -> Request:
        """The request as it is stored, and as it is looked up."""
        address = request.parsed_uri
        if address.netloc != PLACEHOLDER:
            self.hosts.add(address.netloc)
        request.uri = address._replace(netloc=PLACEHOLDER).geturl()
        request.headers = self._headers(request.headers)
        request.body = self._body(request.body)
        return request

    def response(self, response: dict[str, Any]) -> dict[str, Any]:
        """The response as it is stored and replayed."""
        body = {"string": self._body(response["body"]["string"])}
        headers = self._headers(response["headers"])
        return response | {"headers": headers, "body": body}

    def _headers(self, headers: Any) -> dict[str, Any]:
        return {
            name.lower(): value
            for name, value in headers.items()
            if name.lower() in KEPT_HEADERS
        }

    def _body(self, body: Any) -> Any:
        try:
            text = _scrubbed(body.decode())
        except (AttributeError, UnicodeDecodeError):
            return body
        for host in sorted(self.hosts):
            text = text.replace(host, PLACEHOLDER)
        return text.encode()


def _scrubbed(body: str) -> str:
    """A body without secrets, also where only the name of a field shows one.

    A body that has none stays as it is, byte for byte.
    """
    folded = bodies.fold(body)
    clean = redaction.data(folded, scrub)
    return body if clean == folded else str(bodies.unfold(clean))


class Recording(Cassette):  # type: ignore[misc]
    """Recorded traffic that remembers what it was asked in vain.

    Attributes:
        misses: A text for each request that was not in the recording.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.misses: list[str] = []

    @property
    def recording(self) -> bool:
        """Whether real traffic is being recorded, rather than replayed."""
        return bool(self.record_mode == RecordMode.ALL)

    def _load(self) -> None:
        if not self.recording:
            super()._load()

    def can_play_response_for(self, request: Request) -> bool:
        """Whether there is an answer left; a request without one is noted."""
        playable = bool(super().can_play_response_for(request))
        if not playable and not self.recording:
            self.misses.append(self._explain(self.filter_request(request)))
        return playable

    def verify(self) -> None:
        """Assert that each request was in the recording, and that all of it was used.

        Finds what a client or an `except Exception` hid.
        """
        if complaint := self.complaint():
            raise AssertionError(complaint)

    def complaint(self) -> str:
        """What is wrong so far; empty if nothing is."""
        problems = list(self.misses)
        if not self.recording and not problems and not self.all_played:
            problems = [
                f"{len(self)} requests are recorded, only {self.play_count} were made"
            ]
        return "\n".join(f"{Path(self.path).name}: {each}" for each in problems)

    def _explain(self, request: Request) -> str:
        number = self.play_count + 1
        if not self.rewound:
            return f"there is no such recording (request {number})"
        candidates = [
            (differences(_plain(known), _plain(request)), at + 1)
            for at, known in enumerate(self.requests)
            if not self.play_counts[at]
        ]
        if not candidates:
            return f"request {number} is one more than the {len(self)} recorded"
        closest, at = min(candidates, key=lambda candidate: len(candidate[0]))
        shown = closest[:_SHOWN_DIFFERENCES]
        if more := len(closest) - len(shown):
            shown.append(f"... and {more} more")
        head = f"request {number} changed; against recorded request {at}:"
        return "\n".join([head, *(f"  {line}" for line in shown)])


@contextmanager
def recording(
    path: str | os.PathLike[str], *, record: bool = False
) -> Iterator[Recording]:
    """Replay the recording at `path`, or make it anew with `record`.

    While it is open, HTTP clients get recorded answers and reach no server. A
    recording whose block raises is not saved.

    Raises:
        AssertionError: On leaving: a request was not in the recording (with what
            changed in it), or part of the recording was not asked for.
    """
    with open_recording(path, record=record) as opened:
        try:
            yield opened
        except Exception as error:
            if opened.misses:
                raise AssertionError(opened.complaint()) from error
            raise
        opened.verify()


def open_recording(
    path: str | os.PathLike[str], *, record: bool
) -> AbstractContextManager[Recording]:
    """Like `recording`, but leaves it to the caller to `verify`."""
    scrubber = Scrubber()
    vcr = VCR(
        match_on=MATCH_ON,
        record_mode=RecordMode.ALL if record else RecordMode.NONE,
        record_on_exception=False,
        decode_compressed_response=True,
        filter_query_parameters=_QUERY_KEYS,
        before_record_request=scrubber.request,
        before_record_response=scrubber.response,
        serializer="readable",
    )
    readable = SimpleNamespace(
        serialize=bodies.serialize, deserialize=bodies.deserialize
    )
    vcr.register_serializer("readable", readable)
    vcr.register_persister(_Files)
    settings = vcr.get_merged_config(path=os.fspath(path))
    opened: AbstractContextManager[Recording] = CassetteContextDecorator.from_args(
        Recording, **settings
    )
    return opened


class _Files(FilesystemPersister):  # type: ignore[misc]  # vcrpy has no types
    """Recordings in files; one that can't be written leaves the old one."""

    @staticmethod
    def save_cassette(path: Any, recorded: Any, serializer: Any) -> None:
        """Write a recording."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, serialize(recorded, serializer))


def recording_path(folder: Path, module: str, test: str) -> Path:
    """Where the recording of a test is: `<folder>/<module>/<test>.yaml`.

    Parameters in brackets become a suffix after `-`.
    """
    return folder / module / (re.sub(r"[^\w.]+", "-", test).strip("-") + ".yaml")


def _plain(request: Request) -> dict[str, Any]:
    body = bodies.fold((request.body or b"").decode(errors="replace"))
    content = body.get("json", body)
    return {"method": request.method, "uri": request.uri, "body": content}


def differences(recorded: Any, now: Any) -> list[str]:
    """What changed between two plain values, a line per place.

    A line gives the place, what was recorded and what is sent now, each cut to the
    part around the first change.
    """
    before, after = dict(_leaves(recorded)), dict(_leaves(now))
    places = [*before, *(place for place in after if place not in before)]
    return [
        f"{place}: {_change(before.get(place), after.get(place))}"
        for place in places
        if before.get(place) != after.get(place)
    ]


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and value:
        for at, item in enumerate(value):
            yield from _leaves(item, f"{place}[{at}]")
    else:
        yield place, json.dumps(value, ensure_ascii=False)


def _change(before: str | None, after: str | None) -> str:
    if before is None or after is None:
        return f"only sent now: {_cut(after)}" if after else f"missing: {_cut(before)}"
    start = len(os.path.commonprefix([before, after]))
    return f"recorded {_cut(before, start)}, now {_cut(after, start)}"


def _cut(text: str | None, start: int = 0) -> str:
    text = text or ""
    low = max(0, min(start - 20, len(text) - _SHOWN_CHARACTERS))
    high = low + _SHOWN_CHARACTERS
    return "..." * (low > 0) + text[low:high] + "..." * (high < len(text))
