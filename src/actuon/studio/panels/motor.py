# SPDX-License-Identifier: Apache-2.0
"""Sliders for the values of a joint's actuator."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...errors import ActuonError
from ..numbers import Number, alike, exact, numbers_of, stage_titles
from ..robot import MODES, with_number
from ..server import widen_by
from ..session import Session

THIS, ALIKE, ALL = "this joint", "matching joints", "all joints"
_NEAR_END = 0.995
_WIDER = 2.0
_TYPED_DIGITS = 4
"""Digits of typed numbers beyond those of the slider's step."""


class MotorPanel:
    """Sliders for the stages of one joint's actuator, in the container that is current in a viser GUI.

    Args:
        gui: The GUI of a viser server.
        session: Session of the robot.
        on_joint: Called when another joint is chosen.
    """

    def __init__(self, gui: Any, session: Session, on_joint: Callable[[], None]):
        self._gui, self._session = gui, session
        self.joint = gui.add_dropdown("Joint", session.joints, initial_value=session.first_joint)
        self._scope = gui.add_dropdown(
            "Change", (ALIKE, THIS, ALL), hint="Joints that a slider changes. Matching joints have the same values."
        )
        self._mode = gui.add_dropdown(
            "Efforts",
            MODES,
            hint="explicit: computed before each step and held over it. implicit: integrated by the engine.",
        )
        self._mode.on_update(lambda _: session.ask(session.set_mode, self._mode.value))
        self._restore_all = gui.add_button("Restore all values of the file", color="gray", visible=False)
        self._restore_all.on_click(lambda _: session.ask(session.restore_all))
        self._stages = gui.add_folder("Stages")
        self._handles: list[Any] = []
        self._sliders: dict[tuple[int, str], Any] = {}
        self._restores: dict[tuple[int, str], Any] = {}
        self._version = session.values_version
        self._on_joint = on_joint
        self.joint.on_update(self._choose)
        self._build()

    def joints(self) -> list[str]:
        """Return the joints that a slider changes."""
        chosen, configs = self.joint.value, self._session.real.configs
        if self._scope.value == ALL:
            same = [type(part) for part in configs[chosen].stages]
            return [name for name, config in configs.items() if [type(part) for part in config.stages] == same]
        return [chosen] if self._scope.value == THIS else alike(configs, chosen)

    def refresh(self) -> None:
        """Show values that were changed elsewhere: in another tab, by a fit, by a reset."""
        if self._version == self._session.values_version or self._session.has_changes:
            return
        self._version = self._session.values_version
        self._mode.value = self._session.real.mode
        numbers = self._numbers()
        if {(n.stage, n.name) for n in numbers if n.is_slider} != self._sliders.keys():
            self._build()
            return
        for number in numbers:
            slider = self._sliders.get((number.stage, number.name))
            if slider is None:
                continue
            slider.label = number.label
            value = slider.max if number.is_off else number.value
            if not math.isclose(slider.value, value, rel_tol=1e-6):
                slider.min, slider.max, _ = map(type(slider.value), number.slider_range())
                slider.value = slider.max if number.is_off else value
        self._show_restores()

    def _show_restores(self) -> None:
        """Show the buttons that restore values of the file, if they differ."""
        session, joint = self._session, self.joint.value
        values, of_file = session.real.configs[joint].stages, session.file_configs[joint].stages
        for (stage, name), button in self._restores.items():
            button.visible = getattr(values[stage], name) != getattr(of_file[stage], name)
        self._restore_all.visible = session.real.configs != session.file_configs or session.real.mode != MODES[0]

    def _choose(self, event: Any) -> None:
        self._build()
        self._on_joint()

    def _numbers(self) -> list[Number]:
        joint, robot = self.joint.value, self._session.real
        column = robot.dof_names.index(joint)
        inertia = float(robot.articulation.get_dof_armatures().numpy()[0, column])
        return numbers_of(robot.configs[joint], robot.slides[column], inertia)

    def _build(self) -> None:
        for slider in self._sliders.values():
            widen_by(slider, None)
        for handle in self._handles:
            handle.remove()
        self._handles, self._sliders, self._restores = [], {}, {}
        config = self._session.real.configs[self.joint.value]
        numbers = self._numbers()
        for stage, title in enumerate(stage_titles(config)):
            with self._stages:
                folder = self._gui.add_folder(title)
            self._handles.append(folder)
            with folder:
                for number in numbers:
                    if number.stage == stage:
                        self._add(number)
        self._show_restores()

    def _add(self, number: Number) -> None:
        if number.is_slider:
            low, high, step = number.slider_range()
            kind = int if number.declared.integer else float
            value = high if number.is_off else number.value
            slider = self._gui.add_slider(number.label, *map(kind, (low, high, step, value)), hint=number.hint)
            slider.precision += 0 if number.declared.integer else _TYPED_DIGITS
            slider.on_update(lambda event: self._moved(number, slider, event))
            widen_by(slider, lambda value: self._widened(number, slider, value))
            self._sliders[number.stage, number.name] = slider
        elif number.declared.boolean:
            box = self._gui.add_checkbox(number.label, bool(number.value), hint=number.hint)
            box.on_update(lambda event: self._set(number, box.value, event))
        elif number.declared.choices:
            options = number.declared.choices
            chosen = self._gui.add_dropdown(number.label, options, initial_value=number.value, hint=number.hint)
            chosen.on_update(lambda event: self._set(number, chosen.value, event))
        else:
            text = "unset" if number.value is None else str(number.value)
            self._gui.add_text(number.label, text, disabled=True, hint=number.hint)
            return
        stage, name = number.stage, number.name
        of_file = getattr(self._session.file_configs[self.joint.value].stages[stage], name)
        shown = exact(of_file) if number.is_slider else of_file
        button = self._gui.add_button(f"↺ restore {name} = {shown}", color="gray", visible=False)
        button.on_click(lambda _: self._session.ask(self._session.restore, self.joints(), stage, name))
        self._restores[stage, name] = button

    def _moved(self, number: Number, slider: Any, event: Any) -> None:
        self._set(number, slider.value, event)
        limit = number.declared.maximum
        if slider.value >= _NEAR_END * slider.max and (limit is None or slider.max < limit):
            wider = _WIDER * slider.max
            slider.max = type(slider.value)(wider if limit is None else min(wider, limit))

    def _widened(self, number: Number, slider: Any, value: float) -> bool:
        """Widen a slider to a number that was typed, or say why the parameter does not allow it."""
        try:
            with_number(self._session.real.configs[self.joint.value], number.stage, number.name, value)
        except ActuonError as error:
            self._session.message = str(error)
            return False
        slider.min, slider.max = min(slider.min, value), max(slider.max, value)
        return True

    def _set(self, number: Number, value: Any, event: Any) -> None:
        """Change a value if a person moved the control, not if the page updated it."""
        if event.client is not None:
            session = self._session
            session.ask(session.set_number, self.joints(), number.stage, number.name, value)
