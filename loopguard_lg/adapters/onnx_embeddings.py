"""Embeddings by an ONNX model from files, without a network (extra `embeddings`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from tokenizers import Tokenizer

from loopguard_lg.errors import PolicyError


class OnnxEmbeddings:
    """A sentence model, such as MiniLM in 8 bits, on the processor.

    Args:
        model: The model's file, or the folder with its `model.onnx`. It takes
            `input_ids` and, where it has them, `attention_mask` and `token_type_ids`;
            its first output is one vector for each token, whose mean is taken, or one
            for each text.
        tokenizer: The file `tokenizer.json`; by default that beside the model.
        tokens: How many tokens of a text are read.
        threads: How many threads the model may use.

    Raises:
        PolicyError: A file is missing.
        Exception: What onnxruntime or tokenizers raise if one can't be read.
    """

    def __init__(
        self,
        model: str | Path,
        tokenizer: str | Path | None = None,
        *,
        tokens: int = 128,
        threads: int = 1,
    ) -> None:
        path = Path(model)
        path = path / "model.onnx" if path.is_dir() else path
        words = Path(tokenizer or path.parent / "tokenizer.json")
        for file in (path, words):
            if not file.is_file():
                raise PolicyError(f"there is no file {str(file)!r}")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(str(path), options, providers)
        self._inputs = [one.name for one in self._session.get_inputs()]
        self._tokenizer = Tokenizer.from_file(str(words))
        self._tokenizer.enable_truncation(tokens)
        self._tokenizer.enable_padding()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector for each text."""
        read = self._tokenizer.encode_batch(texts)
        given = {
            "input_ids": [one.ids for one in read],
            "attention_mask": [one.attention_mask for one in read],
            "token_type_ids": [one.type_ids for one in read],
        }
        feed = {name: np.array(given[name], np.int64) for name in self._inputs}
        out = np.asarray(self._session.run(None, feed)[0])
        if out.ndim == 3:
            out = _mean(out, np.array(given["attention_mask"]))
        vectors: list[list[float]] = out.astype(float).tolist()
        return vectors


def _mean(out: Any, mask: Any) -> Any:
    """The mean of each text's vectors, without those of the padding."""
    weights = mask[:, :, None]
    return (out * weights).sum(axis=1) / weights.sum(axis=1).clip(min=1)
