# SPDX-License-Identifier: Apache-2.0
"""Motors for the compiled loop: structures with the addresses of their inputs and outputs."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..motor import MotorProgram, RobotCall
from ..robots import Robot
from .loop import Block, Call, Change, Draw, ImplicitEffort, Motor, Place, Points
from .model import ModelFields
from .rows import PROPERTIES


class MotorTable:
    """The motors of a simulation.

    Args:
        programs: Their programs.
        robots: All robots of the simulation.
        fields: The models.
        line_of: Index of the line for the effort of each DOF of the model, shape (nv,).
        by_position: Whether lines have derivatives by position.
    """

    def __init__(
        self,
        programs: Sequence[MotorProgram],
        robots: Sequence[Robot],
        fields: ModelFields,
        line_of: np.ndarray,
        by_position: bool,
    ):
        self.programs = list(programs)
        self.field_names = list(fields.rows)
        """Fields in which environments differed when the table was made."""
        self._kept: list[Any] = []
        self._robots, self._fields, self._line_of = robots, fields, line_of
        self._by_position = by_position
        self.argument_bytes = 64
        """Memory for a copy of the arguments of all kernels, aligned to 64 bytes."""
        self.motors: Any = (Motor * len(self.programs))(*map(self._motor, self.programs))
        self.draw_starts: np.ndarray | None = None
        self.draws = self._draws()

    def _keep(self, values: Any) -> int:
        """Return the address of an array or structure, and keep it alive."""
        self._kept.append(values)
        return int(values.ctypes.data) if isinstance(values, np.ndarray) else ctypes.addressof(values)

    def _table(self, kind: Any, rows: Sequence[Any]) -> int:
        return self._keep((kind * len(rows))(*rows))

    def _by_env(self, robots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the start of each environment's robots, and their rows."""
        envs = np.array([self._robots[i].env for i in robots], dtype=np.int64)
        starts = np.searchsorted(np.sort(envs), np.arange(self._fields.num_envs + 1)).astype(np.int64)
        return starts, np.argsort(envs, kind="stable").astype(np.int64)

    def _calls(self, calls: Sequence[RobotCall]) -> int:
        return self._table(Call, list(map(self._call, calls)))

    def _call(self, each: RobotCall) -> Any:
        call, copy = each.call, self.argument_bytes - 64
        self.argument_bytes += -(-call.size // 64) * 64
        return Call(call.function, call.bounds, call.arguments, call.size, call.first, copy, self._keep(each.cells))

    def _motor(self, program: MotorProgram) -> Any:
        starts, rows = self._by_env(program.robots)
        dofs, implicit, trips = program.dofs, program.implicit, program.trips
        changes = [
            change
            for name, (values, columns) in program.properties.items()
            for change in self._changes(name, values, columns, dofs)
        ]
        pushes = [Place(int(column), int(dofs[column])) for column in program.pushed]
        motor = Motor(
            is_driven=True,
            width=program.efforts.shape[1],
            by_position=self._by_position,
            num_calls=len(program.calls),
            num_pushes=len(pushes),
            num_changes=len(changes),
            starts=self._keep(starts),
            robots=self._keep(rows),
            calls=self._calls(program.calls),
            pushes=self._table(Place, pushes),
            changes=self._table(Change, changes),
            checked=self._keep(program.checked),
            seen=self._keep(program.seen),
            load=None if program.loads is None else self._keep(program.loads),
        )
        motor.now.effort = self._keep(program.efforts)
        if implicit is not None:
            lines = [Place(int(column), int(self._line_of[dofs[column]])) for column in implicit.columns]
            motor.num_lines, motor.lines = len(lines), self._table(Place, lines)
            motor.now, motor.at_end = (
                ImplicitEffort(*map(self._keep, given)) for given in (implicit.now, implicit.at_end)
            )
            motor.num_end_calls, motor.end_calls = len(implicit.calls), self._calls(implicit.calls)
            blocks = [Block(b.memory, b.before, b.at_end, b.size, self._keep(b.cells)) for b in implicit.blocks]
            motor.num_blocks, motor.blocks = len(blocks), self._table(Block, blocks)
            motor.points = self._keep((Points * (len(program.robots) * len(lines)))())
        if trips is not None:
            motor.tripped, motor.said = self._keep(trips.tripped), self._keep(trips.said)
            motor.tripped_at, motor.tripped_temperature = self._keep(trips.step), self._keep(trips.step_temperature)
            motor.temperature = None if trips.temperature is None else self._keep(trips.temperature)
        self._kept.append(program.keep)
        return motor

    def _changes(self, name: str, values: np.ndarray, columns: np.ndarray, dofs: np.ndarray) -> list[Any]:
        field = PROPERTIES[name].of_dof
        rows = self._keep(self._fields.all_rows(field))
        place = self.field_names.index(field) if field in self._fields.rows else -1
        address = self._keep(values)
        return [Change(address, int(column), rows, int(dofs[column]), place) for column in columns]

    def _draws(self) -> Any:
        """Return the motors on batteries: by environment, then by robot."""
        by_robot: dict[int, list[Any]] = {}
        for program in self.programs:
            for draws in program.draws:
                for row in np.flatnonzero(draws.cells >= 0).tolist():
                    at = int(draws.cells[row]) * draws.stride
                    piece = Draw(draws.own + at, draws.other + at, draws.count, False)
                    by_robot.setdefault(int(program.robots[row]), []).append(piece)
        if not by_robot:
            return None
        order = sorted(by_robot, key=lambda robot: (self._robots[robot].env, robot))
        pieces = []
        for robot in order:
            by_robot[robot][-1].is_last = True
            pieces += by_robot[robot]
        envs = np.repeat([self._robots[robot].env for robot in order], [len(by_robot[robot]) for robot in order])
        self.draw_starts = np.searchsorted(envs, np.arange(self._fields.num_envs + 1)).astype(np.int64)
        return (Draw * len(pieces))(*pieces)
