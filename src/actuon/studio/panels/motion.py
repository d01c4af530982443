# SPDX-License-Identifier: Apache-2.0
"""Controls of the robot: commands, pushes, pause, reset, and an ideal robot next to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..motion import HOLD, KINDS, RECORDED, Command, Motion
from ..numbers import alike
from ..session import Session
from .motor import ALIKE, ALL, THIS

_PUSH = 80.0
_KNOCK = 5.0


class MotionPanel:
    """Controls in the container that is current in a viser GUI.

    Args:
        gui: The GUI of a viser server.
        session: Session of the robot.
        joint: Returns the name of the selected joint.
    """

    def __init__(self, gui: Any, session: Session, joint: Callable[[], str]):
        self._session, self._joint = session, joint
        self._command: Command | None = None
        self._shown = session.motion
        slides, motion = session.real.slides[session.motion.columns[0]], session.motion
        unit, reach = ("m", 0.1) if slides else ("rad", 1.0)
        self._kind = gui.add_dropdown("Command", KINDS, initial_value=motion.kind)
        self._scope = gui.add_dropdown("Moves", (ALIKE, THIS, ALL))
        self._amplitude = gui.add_slider(f"Amplitude [{unit}]", 0.0, reach, reach / 100.0, motion.amplitude)
        self._frequency = gui.add_slider(
            "Frequency [Hz]",
            0.1,
            20.0,
            0.1,
            motion.frequency,
            hint="Frequency of sine and step; final frequency of a chirp.",
        )
        self._offset = gui.add_slider(f"Offset [{unit}]", -reach, reach, reach / 100.0, 0.0)
        for control in (self._kind, self._scope, self._amplitude, self._frequency, self._offset):
            control.on_update(lambda event: self.apply() if event.client is not None else None)
        self._pause = gui.add_button("Pause")
        self._pause.on_click(lambda _: session.ask(session.pause, not session.is_paused))
        gui.add_button("Reset", hint="Key: R").on_click(lambda _: session.ask(session.reset))
        gui.add_command("Reset", hotkey="R").on_trigger(lambda _: session.ask(session.reset))
        if session.real.is_fixed_base:
            self._push = gui.add_slider(f"Knock [{unit}/s]", 0.0, 20.0, 0.1, _KNOCK)
        else:
            self._push = gui.add_slider("Push [N]", 0.0, 300.0, 1.0, _PUSH)
        gui.add_button("Knock" if session.real.is_fixed_base else "Push").on_click(lambda _: session.ask(self._do_push))
        self._ideal = gui.add_checkbox(
            "Ideal robot next to it", False, hint="The same controllers without delay and limits. Resets all robots."
        )
        self._ideal.on_update(lambda _: session.ask(session.show_ideal, self._ideal.value))

    def apply(self) -> None:
        """Apply the controls to the session."""
        session = self._session
        if self._kind.value == RECORDED and self._command is None:
            session.message = "no recorded command: load a log in the tab Log first"
            self._kind.value = session.motion.kind
            return
        joint = self._joint()
        joints = {THIS: [joint], ALL: session.joints}.get(self._scope.value) or alike(session.real.configs, joint)
        motion = Motion(
            self._kind.value,
            tuple(session.dof_names.index(name) for name in joints),
            0.0 if self._kind.value == HOLD else self._amplitude.value,
            self._frequency.value,
            self._offset.value,
            self._command,
            session.dof_names,
        )
        session.ask(session.set_motion, motion)

    def play(self, command: Command) -> None:
        """Play a recorded command."""
        self._command = command
        self._kind.value = RECORDED
        self.apply()

    def refresh(self) -> None:
        """Show the state of the session, which other tabs may have changed."""
        motion = self._session.motion
        if motion is not self._shown and not self._session.has_changes:
            self._shown = motion
            self._kind.value, self._frequency.value, self._offset.value = motion.kind, motion.frequency, motion.offset
            if motion.kind != HOLD:
                self._amplitude.value = motion.amplitude
        self._pause.label = "Resume" if self._session.is_paused else "Pause"
        if self._ideal.value != (self._session.ideal is not None) and not self._session.has_changes:
            self._ideal.value = self._session.ideal is not None

    def follow_joint(self) -> None:
        """Move the selected joint, and those that match it."""
        if self._scope.value != ALL:
            self.apply()

    def _do_push(self) -> None:
        session = self._session
        session.push((0.0, self._push.value, 0.0), self._push.value, session.dof_names.index(self._joint()))
