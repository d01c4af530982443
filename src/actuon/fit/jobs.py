# SPDX-License-Identifier: Apache-2.0
"""Searches as jobs: each is a function of what it holds alone, so that it runs here or on another machine.

What is found depends on the job, and not on where it runs, or on what runs beside it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from .local import LocalResult, refine
from .models import Model
from .parameters import from_unit
from .plants.one_joint import Apart, OneJoint
from .plants.plant import Plant
from .search import Progress, SearchOptions, SearchResult, search, searching

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


def by_joint(job: SearchJob) -> list[SearchJob]:
    """The job as one for each joint, where joints do not disturb each other; else the job itself."""
    plant = job.plant
    if job.together or len(job.models) == 1 or not isinstance(plant, Apart):
        return [job]
    jobs = []
    for joint, model in enumerate(job.models):
        seed = int(np.random.default_rng([job.options.seed, joint]).integers(2**31))
        jobs.append(
            SearchJob(
                OneJoint(plant, joint),
                (model,),
                dataclasses.replace(job.options, seed=seed),
                begins=tuple((begin[joint],) for begin in job.begins),
                resume=None if job.resume is None else f"{job.resume}.{plant.joints[joint]}",
            )
        )
    return jobs


def of_joints(found: Sequence[SearchResult]) -> SearchResult:
    """What searches of single joints have found, as one result."""
    if len(found) == 1:
        return found[0]
    return SearchResult(
        [value for one in found for value in one.values],
        np.concatenate([one.errors for one in found]),
        max(one.generations for one in found),
        sum(one.evaluations for one in found),
        converged=all(one.converged for one in found),
        interrupted=any(one.interrupted for one in found),
    )


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
    """The best that the starts of each job found, in the order of the jobs; one that was interrupted is the last.

    A task is one start of one job, and of one joint where joints do not disturb each other. Here, those of a job go on
    side by side, so that all are as far where they are interrupted.
    """
    parts = [[from_each_start(one) for one in by_joint(job)] for job in jobs]
    found = None
    if workers is not None:
        tasks = [task for joints in parts for starts in joints for task in starts]
        named = [
            title + (f", {starts[0].plant.joints[0]}" if len(joints) > 1 else "") + (f", start {i + 1}" if i else "")
            for title, joints in zip(titles, parts, strict=True)
            for starts in joints
            for i in range(len(starts))
        ]
        found = workers.map(run_search, tasks, named, progress)
    for title, joints in zip(titles, parts, strict=True):
        if found is None:
            done = _side_by_side(joints, progress(title) if progress is not None else None)
        else:
            done = of_joints([best_of([next(found) for _ in starts]) for starts in joints])
        yield done
        if done.interrupted:
            return


def _side_by_side(joints: Sequence[Sequence[SearchJob]], told: Progress | None) -> SearchResult:
    """What searches find of which each goes on for one generation at a time: one for each start of each joint."""
    latest: dict[tuple[int, int], np.ndarray] = {}
    running = {
        (j, i): searching(
            job.plant, job.models, job.options, together=job.together, starts=job.begins, resume=job.resume,
            progress=functools.partial(_keep, latest, (j, i)),
        )
        for j, starts in enumerate(joints)
        for i, job in enumerate(starts)
    }  # fmt: skip
    found: dict[tuple[int, int], SearchResult] = {}
    generation, is_interrupted = 0, False
    while running:
        try:
            for key, steps in list(running.items()):
                try:
                    if is_interrupted and key in latest:
                        steps.throw(KeyboardInterrupt)
                    else:
                        next(steps)
                except StopIteration as done:
                    found[key] = done.value
                    del running[key]
                    is_interrupted |= found[key].interrupted
            generation += 1
            if told is not None and running:
                best = [np.min([latest[j, i] for i in range(len(own))], axis=0) for j, own in enumerate(joints)]
                told(generation, np.concatenate(best))
        except KeyboardInterrupt:
            is_interrupted = True
    return of_joints([best_of([found[j, i] for i in range(len(starts))]) for j, starts in enumerate(joints)])


def _keep(latest: dict[tuple[int, int], np.ndarray], key: tuple[int, int], generation: int, errors: np.ndarray) -> None:
    """Note the errors of a search after a generation."""
    latest[key] = errors


@dataclass(frozen=True)
class RefineJob:
    """Least squares of one joint, with all that they need.

    Args:
        plant: What the actuators move.
        models: One for each joint.
        values: Where to begin, for each joint, shape (P,).
        joint: Which one to improve.
        steps: Most steps.
    """

    plant: Plant
    models: tuple[Model, ...]
    values: tuple[np.ndarray, ...]
    joint: int
    steps: int


def run_refine(job: RefineJob, progress: Progress | None = None) -> LocalResult:
    """Improve the values of one joint, as the job says."""
    return refine(job.plant, job.models, job.values, job.joint, steps=job.steps)


def refined(
    plant: Plant,
    models: Sequence[Model],
    values: Sequence[np.ndarray],
    steps: int,
    workers: Workers | None = None,
    progress: Titled | None = None,
) -> list[LocalResult]:
    """Improve the values of all joints by least squares: each on its own where joints do not disturb each other, else
    one after the other."""
    if len(models) > 1 and isinstance(plant, Apart):
        jobs = [RefineJob(OneJoint(plant, j), (m,), (values[j],), 0, steps) for j, m in enumerate(models)]
        return list((workers or Here()).map(run_refine, jobs, list(plant.joints), progress))
    now, found = list(values), []
    for joint in range(len(models)):
        found.append(refine(plant, models, now, joint, steps=steps))
        now[joint] = found[joint].values
    return found
