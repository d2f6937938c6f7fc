"""How sure a share is, without numpy: `wilson`."""

from __future__ import annotations

import math
from statistics import NormalDist


def wilson(k: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """The score interval of the share `k / n`; `n` is not 0.

    Source: E. B. Wilson, Probable inference, the law of succession, and statistical
    inference, JASA 22 (1927). Stays within 0 and 1 and holds for few runs as well.
    """
    z2 = NormalDist().inv_cdf(0.5 + level / 2) ** 2
    p = k / n
    middle = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = math.sqrt(z2 * (p * (1 - p) + z2 / (4 * n)) / n) / (1 + z2 / n)
    return 0.0 if k == 0 else middle - half, 1.0 if k == n else middle + half
