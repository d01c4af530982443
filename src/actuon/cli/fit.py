# SPDX-License-Identifier: Apache-2.0
"""``actuon fit`` and its sub-commands: from logs to motors, and motors on logs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

import actuon
from actuon.errors import ParameterError, RobotFileError
from actuon.files import check_folder, json_text

from .fit_options import (
    MODEL,
    FleetOutput,
    FreeOptions,
    Logs,
    ModelName,
    Models,
    MotionOptions,
    Network,
    NetworkOutput,
    OutputOptions,
    PlantOptions,
    Resume,
    SearchOptions,
    check_results,
    numbers,
    refuse,
)
from .options import AllowTorch, File, Folder, Force, Json
from .outputs import check_new
from .show import (
    SearchBar,
    log_rate,
    make_console,
    print_applied,
    print_excitation,
    print_fit,
    print_fleet,
    print_logs,
    print_network,
    unit_of,
)

if TYPE_CHECKING:
    from actuon.fit import FitResult, Plant

_DEFAULT_MODEL = "m4"
INTERRUPTED = 130
"""Exit code after Ctrl+C, as of shells."""


def fit(
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    resume: Resume = None,
    output: OutputOptions = OutputOptions(),
) -> int:
    """Estimate motor parameters from logs of a real joint or robot.

    Replays the logged commands in simulation and minimises the difference between simulated and measured positions.
    Prints each parameter with a 95 % confidence interval, the error per run, and a verdict. Ctrl+C stops and writes the
    best result so far.

    Args:
        model: Model to fit, e.g. pd_coulomb, m4. Default: servo_m6 or m6 for a joint with a known load, m3+limit for a
            robot.
    """
    return _fit(logs, plant, False, model, free, search, resume, output)


def select(
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    models: Models = None,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    resume: Resume = None,
    output: OutputOptions = OutputOptions(),
) -> int:
    """Compare models by cross-validation and fit the best one.

    Each model is fitted without some of the runs and judged by its error on them; the simplest within the noise of the
    best is chosen and fitted to all runs.

    Args:
        models: Comma-separated list of models. Default: the usual ones.
    """
    return _fit(logs, plant, _listed(models) or True, None, free, search, resume, output)


def _fit(
    logs: Sequence[Path],
    plant: PlantOptions,
    chosen: bool | Sequence[str],
    model: str | None,
    free: FreeOptions,
    search: SearchOptions,
    resume: Path | None,
    output: OutputOptions,
) -> int:
    """Fit a model, or the best of several, and write the result."""
    from actuon.fit import fit_logs
    from actuon.fit.interrupts import held_interrupts

    from .fit_author import check_robot

    output.check()
    actuon.quiet()
    if search.on is not None:
        refuse("--on: a checkpoint is kept on the machine that searches", ("--resume", resume))
    known, cluster = free.known(search), search.workers()
    moved = plant.read(logs)
    if output.author is not None:
        check_robot(output.author, moved.joints, output.force)
    with held_interrupts():
        with cluster as workers, SearchBar(moved) as bar:
            result = fit_logs(
                model=model, select=chosen, plant=moved, progress=bar.search, resume=resume, workers=workers, **known
            )
        return _write(output, result, moved)


def _write(output: OutputOptions, result: FitResult, plant: Plant) -> int:
    """Write and print a result; returns the exit code."""
    from actuon.fit.report import write_report

    from .fit_author import write_robot

    written = []
    if output.output is not None:
        result.save(output.output)
        written.append(output.output)
    if output.author is not None:
        write_robot(output.author, result.entries())
        written.append(output.author)
    if output.report is not None:
        written.append(write_report(result, plant, output.report))
    _present(output.as_json, result.as_dict, lambda: print_fit(result), written)
    return _exit_code(result.interrupted, result.is_useless)


def _exit_code(interrupted: bool, is_useless: bool) -> int:
    """Return the exit code of a fit."""
    return INTERRUPTED if interrupted else 1 if is_useless else 0


def inspect(
    *logs: Logs,
    columns: File | None = None,
    as_json: Json = False,
) -> None:
    """Show the columns, units, rates and gaps that were found in logs.

    Reads the logs as a fit would, and simulates nothing.

    Args:
        columns: YAML that maps columns to quantities and units.
    """
    from actuon.fit import read_logs

    if not logs:
        raise ParameterError("no logs. Pass files, folders or glob patterns")
    read = read_logs(logs, columns)
    if as_json:
        print(json_text({"logs": [_described(log) for log in read]}))
    else:
        print_logs(make_console(), read)


def _described(log: Any) -> dict[str, Any]:
    """Return the content of a log for JSON."""
    joints: dict[str, Any] = {}
    for joint in log.joints:
        joints[joint.name] = {
            name: {
                "low": float(values.min()),
                "high": float(values.max()),
                "unit": unit_of(joint, name),
                "unit_in_file": joint.units.get(name),
            }
            for name, values in joint.quantities().items()
        }
    findings = [
        {"text": str(one), "kind": one.kind, "where": one.where, "severity": one.severity} for one in log.findings
    ]
    return {
        "path": log.path,
        "samples": len(log),
        "seconds": log.duration,
        "rate": log_rate(log),
        "settings": dict(log.settings),
        "joints": joints,
        "findings": findings,
    }


def apply(
    file: File,
    /,
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    as_json: Json = False,
    allow_torch: AllowTorch = False,
) -> int:
    """Replay a motor file on logs; print the error and a verdict.

    The simulation is that of a fit, at its time step, with nothing left to estimate.

    Args:
        file: Motor file (actuon.yaml).
    """
    from actuon.fit import apply as applied, replay_step
    from actuon.fit.fitting import findings_of

    actuon.quiet()
    moved = plant.read(logs, None if plant.dt is not None else replay_step(file, allow_torch))
    found, findings = applied(file, moved, allow_torch), list(findings_of(moved))
    if as_json:
        print(json_text({**found.as_dict(), "findings": findings}))
    else:
        print_applied(file, found, findings)
    return 1 if found.is_useless else 0


def excite(
    file: File,
    /,
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    free: FreeOptions = FreeOptions(),
    motion: MotionOptions = MotionOptions(),
    search: SearchOptions = SearchOptions(),
    as_json: Json = False,
    force: Force = False,
) -> int:
    """Design the motion to record next.

    Finds the motion within the joint's limits that narrows the confidence intervals of the parameters most. Begins with
    the logs recorded so far, with a motor file, or with the load and the limits alone. For a single joint.

    Args:
        file: CSV file to write, with the commands of the motion.
        model: Model to identify, e.g. pd_coulomb, m4, servo_m6.
    """
    from actuon.charts import pyplot
    from actuon.fit import fit_logs
    from actuon.fit.excite import ExcitationOptions, excite as design, facts_of, from_file, limits_of, motions_of
    from actuon.fit.model import changed
    from actuon.fit.plants.known_load import with_load
    from actuon.fit.refine import refine
    from actuon.fit.report import draw_excitation
    from actuon.fit.terms import JointFacts, build_model

    check_new(file, (".csv",), force)
    pyplot()
    actuon.quiet()
    single = "`actuon fit excite`, which is for a single joint"
    refuse(single, ("--robot", plant.robot), ("--plant", plant.plant))
    known, cluster, settings = free.known(search), search.workers(), numbers("--load", plant.load)
    generations = min(search.generations, ExcitationOptions.generations)
    options = ExcitationOptions(seconds=motion.seconds, generations=generations, seed=search.seed)
    moved = plant.read(logs) if logs else None
    if moved is None:
        limits = motion.limits(None)
        facts = facts_of(with_load({}, settings), limits)
    else:
        (joint,) = moved.joints
        limits = motion.limits(limits_of(moved.runs, joint))
        facts = JointFacts(moved.scales()[0], moved.runs, joint)
    if motion.actuators is not None:
        chosen, values = from_file(motion.actuators, facts, model)
    elif moved is None:
        chosen = changed(build_model(model or _DEFAULT_MODEL, facts), known["fix"], known["free"])
        values = chosen.start
    else:
        with cluster as workers, SearchBar(moved) as bar:
            result = fit_logs(model=model, plant=moved, progress=bar.search, workers=workers, **known)
        if result.interrupted:  # there is no motion yet
            raise KeyboardInterrupt
        chosen, values = result.joints[0].model, result.joints[0].values
    local, recorded, unit = None, None, "rad" if moved is None else moved.units[0]
    stated: Mapping[str, Any] = {}
    if moved is not None:
        local = refine(moved, [chosen], [values], 0, steps=0)
        rates = [len(run) / run.duration for run in moved.runs]
        options = dataclasses.replace(options, rate=float(np.clip(np.median(rates), 10.0, 2000.0)))
        recorded, stated = motions_of(moved.runs, joint), moved.runs[0].settings
    with SearchBar(total=options.generations) as bar:
        found = design(
            facts.joint,
            chosen,
            values,
            limits,
            with_load(stated, settings),
            options,
            local=local,
            progress=bar.motion,
            unit=unit,
        )
    found.save(file)
    picture = file.with_suffix(".png")
    draw_excitation(found, limits, picture)
    _present(as_json, found.as_dict, lambda: print_excitation(found, chosen.name, recorded), (file, picture))
    return _exit_code(found.interrupted, False)


def network(
    kind: Network,
    /,
    *logs: Logs,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    models: Models = None,
    select: Annotated[bool, Parameter(group=MODEL)] = False,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    output: NetworkOutput = NetworkOutput(),
) -> int:
    """Train a network controller and compare it with physical models.

    The physical models are fitted to the same logs, and all are judged on the same held-out runs. For a single joint
    with a known load.

    Args:
        kind: mlp, lstm or gru.
        model: Physical model to compare with.
        models: Comma-separated list of physical models to compare with.
        select: Compare with the usual physical models.
    """
    from actuon.errors import require
    from actuon.fit.fitting import candidates_of, findings_of
    from actuon.fit.interrupts import held_interrupts
    from actuon.fit.network_fitting import fit_network

    require("torch", "torch", "training networks")
    if output.output is not None:
        check_new(output.output, (".safetensors",), output.force)
        check_new(output.output.with_suffix(".yaml"), force=output.force)
    actuon.quiet()
    known, cluster = free.known(search), search.workers()
    moved = plant.read(logs)
    chosen = _listed(models) or select
    candidates = candidates_of(moved, model, select=chosen, fix=known["fix"], free=known["free"])
    options = known["options"]
    share = min(1.0, options.generations / SearchOptions.generations)
    with held_interrupts():
        with cluster as workers, SearchBar(moved) as bar:
            result = fit_network(
                moved, kind, candidates, options=options, share=share, progress=bar.search, workers=workers
            )
        written = [] if output.output is None else [output.output, result.save(output.output)]
        findings = list(findings_of(moved))
        _present(
            output.as_json,
            lambda: {**result.as_dict(), "findings": findings},
            lambda: print_network(result, findings),
            written,
        )
    return _exit_code(result.interrupted, False)


def fleet(
    folder: Folder,
    /,
    *,
    plant: PlantOptions = PlantOptions(),
    model: ModelName = None,
    models: Models = None,
    select: Annotated[bool, Parameter(group=MODEL)] = False,
    free: FreeOptions = FreeOptions(),
    search: SearchOptions = SearchOptions(),
    output: FleetOutput = FleetOutput(),
) -> int:
    """Fit one motor per robot and report how they differ.

    All robots get the same model. Prints the mean and spread of each parameter; the file is a source of randomised
    motors.

    Args:
        folder: Folder with a folder of logs for each robot.
        model: Model to fit to every robot. Default: as in `actuon fit`.
        models: Comma-separated list of models, of which the best on all robots is fitted.
        select: Compare the usual models and fit the best on all robots.
    """
    from actuon.fit import fit_fleet
    from actuon.fit.fleet_fitting import robots_folder
    from actuon.fit.interrupts import held_interrupts
    from actuon.fit.report import write_report
    from actuon.logs.files import robot_folders

    check_results(output.output, output.report, output.force)
    actuon.quiet()
    known, cluster = free.known(search), search.workers()
    robots = robot_folders(folder)
    if not robots:
        why = "has no folders with logs; must have one for each robot" if folder.is_dir() else "is not a folder"
        raise RobotFileError(f"'{folder}' {why}")
    plants = {name: plant.read([own]) for name, own in robots.items()}
    if output.output is not None:
        check_folder(robots_folder(output.output))
        for name in plants:
            check_new(robots_folder(output.output) / f"{name}.yaml", force=output.force)
    with held_interrupts():
        with cluster as workers, SearchBar(next(iter(plants.values()))) as bar:
            result = fit_fleet(
                plants, model=model, select=_listed(models) or select, progress=bar.search, workers=workers, **known
            )
        written = []
        if output.output is not None and result.is_comparable:
            result.save(output.output)
            written = [output.output, *(robots_folder(output.output) / f"{name}.yaml" for name in result.robots)]
        elif output.output is not None:
            written = result.save_robots(output.output)
        if output.report is not None:
            written += [write_report(own, plants[name], output.report / name) for name, own in result.robots.items()]
        _present(output.as_json, lambda: _fleet_as_dict(result), lambda: print_fleet(result), written)
    return _exit_code(result.interrupted, any(own.is_useless for own in result.robots.values()))


def _fleet_as_dict(result: Any) -> dict[str, Any]:
    return {
        "warnings": list(result.warnings),
        "interrupted": result.interrupted,
        "models": [one.as_dict() for one in result.compared],
        "robots": {name: own.as_dict() for name, own in result.robots.items()},
    }


def _listed(names: str | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if names else []


def _present(
    as_json: bool, as_dict: Callable[[], Mapping[str, Any]], show: Callable[[], None], written: Iterable[Path]
) -> None:
    """Print a result as JSON, or as tables and the files that were written."""
    if as_json:
        print(json_text(as_dict()))
        return
    show()
    for path in written:
        print(f"wrote {path}")
