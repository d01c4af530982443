# SPDX-License-Identifier: Apache-2.0
"""Searches as jobs: each is a function of what it holds alone, so that it runs here or on another machine.

What is found depends on the job, and not on where it runs, or on what runs beside it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from .models import Model
from .parameters import from_unit
from .plants.plant import Plant
from .search import Progress, SearchOptions, SearchResult, search

Titled = Callable[[str], Progress | None]
"""Gets the title of a search, gives what is told after each of its generations."""

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")


class Workers(Protocol):
    """What runs jobs, such as a cluster."""

    def map(
        self, function: Callable[[_Job, Progress | None], _Found], jobs: Sequence[_Job], titles: Sequence[str],
        progress: Titled | None = None,
    ) -> Iterator[_Found]:  # fmt: skip
        """What a function gives for each job, in their order, as soon as all before it are done.

        Where it is interrupted, jobs that have begun end with the best so far, and no others begin.

        Args:
            function: Of a module, so that others can import it. Gets a job, and what to tell after each generation.
            jobs: Each can be pickled.
            titles: What to call each.
            progress: Called with how far they are.
        """


class Here:
    """Runs jobs in this process, one after the other."""

    def map(
        self, function: Callable[[_Job, Progress | None], _Found], jobs: Sequence[_Job], titles: Sequence[str],
        progress: Titled | None = None,
    ) -> Iterator[_Found]:  # fmt: skip
        """See `Workers.map`."""
        for job, title in zip(jobs, titles, strict=True):
            yield function(job, progress(title) if progress is not None else None)


@dataclass(frozen=True)
class SearchJob:
    """One search from one start, with all that it needs.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        options: How long and how wide, and the seed.
        together: Search all joints as one vector.
        begins: Where to begin, as values for each joint, shape (P,). Default: at the models' own start.
        resume: File to go on from, and to keep what is found in.
    """

    plant: Plant
    models: tuple[Model, ...]
    options: SearchOptions
    together: bool = False
    begins: tuple[tuple[np.ndarray, ...], ...] = ()
    resume: Any = None


def run_search(job: SearchJob, progress: Progress | None = None) -> SearchResult:
    """Search, as the job says."""
    return search(
        job.plant, job.models, job.options,
        together=job.together, starts=job.begins, progress=progress, resume=job.resume,
    )  # fmt: skip


def from_each_start(job: SearchJob) -> list[SearchJob]:
    """The job as one for each of its ``starts``: the first from where it begins, the others from random values."""
    jobs = [dataclasses.replace(job, options=dataclasses.replace(job.options, starts=1))]
    for number in range(1, job.options.starts):
        rng = np.random.default_rng([job.options.seed, number])
        begin = tuple(from_unit(m.parameters, rng.uniform(0.1, 0.9, len(m.parameters))) for m in job.models)
        options = dataclasses.replace(job.options, starts=1, seed=int(rng.integers(2**31)))
        resume = None if job.resume is None else f"{job.resume}.{number}"
        jobs.append(dataclasses.replace(job, options=options, begins=(begin,), resume=resume))
    return jobs


def best_of(found: Sequence[SearchResult]) -> SearchResult:
    """The one with the least error, which stands for all: they converged where it did, and took all their effort."""
    best = min(found, key=lambda one: float(one.errors.mean()))
    return dataclasses.replace(
        best,
        evaluations=sum(one.evaluations for one in found),
        interrupted=any(one.interrupted for one in found),
    )


def searched(
    jobs: Sequence[SearchJob], titles: Sequence[str], workers: Workers | None = None, progress: Titled | None = None
) -> Iterator[SearchResult]:
    """The best that the starts of each job found, in the order of the jobs; one that was interrupted is the last."""
    starts = [from_each_start(job) for job in jobs]
    named = [
        f"{title}, start {number + 1}" if number else title
        for title, own in zip(titles, starts, strict=True)
        for number in range(len(own))
    ]
    found = (workers or Here()).map(run_search, [one for own in starts for one in own], named, progress)
    for own in starts:
        done: list[SearchResult] = []
        while len(done) < len(own) and not (done and done[-1].interrupted):
            done.append(next(found))
        yield best_of(done)
        if done[-1].interrupted:
            return
