"""Aggregates as the library rliable computes them, on scores that are written beside them, for a test.

    pip install rliable 'pandas<3'
    python benchmarks/rliable_values.py tests/analysis/rliable_values.json

The test is ``tests/analysis/test_aggregates.py``. Needs rliable 1.2, which nothing else here does.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

SHAPES = ((5, 16), (3, 16), (10, 7), (1, 4), (3, 1))
"""Runs by tasks."""
THRESHOLDS = np.linspace(0.0, 1.2, 13)
RESAMPLES = 3


def values(scores: np.ndarray, others: np.ndarray) -> dict[str, object]:
    """Return all aggregates of scores, and the probability that they improve on others."""
    bootstrap = library.StratifiedBootstrap(scores)
    resampled = [data[0][0] for data in bootstrap.bootstrap(RESAMPLES)]
    return {
        "scores": scores.tolist(),
        "others": others.tolist(),
        "interquartile_mean": metrics.aggregate_iqm(scores),
        "median": metrics.aggregate_median(scores),
        "mean": metrics.aggregate_mean(scores),
        "optimality_gap": metrics.aggregate_optimality_gap(scores),
        "thresholds": THRESHOLDS.tolist(),
        "profile": [library.run_score_deviation(scores, threshold) for threshold in THRESHOLDS],
        "improvement": metrics.probability_of_improvement(scores, others),
        "resampled": [each.tolist() for each in resampled],
        "resampled_interquartile_means": [metrics.aggregate_iqm(each) for each in resampled],
    }


def main() -> None:
    """Write the values of scores of several shapes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    np.random.seed(0)  # noqa: NPY002 - rliable draws from this generator
    random = np.random.default_rng(0)
    found = [
        values(np.round(random.normal(0.6, 0.4, shape), 2), np.round(random.normal(0.5, 0.4, shape), 2))
        for shape in SHAPES
    ]
    parser.parse_args().file.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
