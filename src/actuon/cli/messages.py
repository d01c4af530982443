# SPDX-License-Identifier: Apache-2.0
"""What the command says when something is wrong: one line, about commands and options."""

from __future__ import annotations

import sys

_IN_COMMANDS = {
    "pass allow_unsafe_torch_checkpoints=True, or --allow-torch on the command line": "allow it with --allow-torch",
    "overwrite_existing=True, or --overwrite, replaces it": "--overwrite replaces it",
    "Write a YAML with 'actuon init', prims with add_actuator(), or use ArticulationActuators.from_actuators()": (
        "Write a YAML with 'actuon init', or a USD file with 'actuon author'"
    ),
    "name the robot's root:": "name the robot's root with --root:",
}
"""What to do, as the library says it to people who write Python, and as it is done with the command."""


def in_commands(message: str) -> str:
    """A message of the library on one line, in the words of the command."""
    message = " ".join(message.split())
    for python, command in _IN_COMMANDS.items():
        message = message.replace(python, command)
    return message


def complain(message: str) -> None:
    """Print a message of the library as an error of the command."""
    print(f"actuon: {in_commands(message)}", file=sys.stderr)
