# SPDX-License-Identifier: Apache-2.0
"""All commands of ``actuon``, with their usage and the text below their options."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from cyclopts import App, Group, Parameter

import actuon

from . import fit, motors, robot, run, studio
from .help import HelpFormatter
from .options import ARGUMENTS, COMMANDS

START, CHECK, IDENTIFY, CONVERT, OPTIONS = map(
    Group.create_ordered, ("Start", "Check", "Identify", "Convert", "Options")
)

app = App(
    name="actuon",
    help="Realistic motors for robot simulation.",
    usage="actuon COMMAND [ARGS] [OPTIONS]",
    help_epilogue="""\
Try:  actuon run "$(python -c 'import actuon; print(actuon.assets.quadruped_mjcf)')"
Docs: actuon COMMAND --help""",
    help_format="plaintext",
    help_formatter=HelpFormatter(),
    help_flags="--help",
    version=actuon.__version__,
    version_flags="--version",
    group_commands=OPTIONS,
    group_arguments=ARGUMENTS,
    group_parameters=OPTIONS,
    default_parameter=Parameter(negative=()),
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(help="Install shell completion.", sort_key=1)
for flag, help_text, sort_key in (("--version", "Print the version.", 0), ("--help", "Show this help.", 2)):
    app[flag].help, app[flag].sort_key = help_text, sort_key
_orders = itertools.count()


def _add(parent: App, group: Group, command: Callable[..., Any], usage: str, below: str = "") -> App:
    """Add a command below those of its group; returns it.

    Args:
        parent: Application or command that it belongs to.
        group: Group in the help of the parent.
        command: Function.
        usage: Command line without ``actuon``.
        below: Text below the options in the help of the command.
    """
    added = App(
        name=command.__name__,
        group=group,
        usage=f"actuon {usage}",
        help_epilogue=below,
        sort_key=next(_orders),
    )
    added.default(command)
    parent.command(added)
    return added


_SAFE = "Exit code: 0 no problems, 1 errors"
_USELESS = "Exit code: 1 if the fit is of no use, 130 after Ctrl+C; the result is still written."
_FIT = "Example: actuon fit runs/*.csv --load mass=0.49 --load length=0.1 -o servo.yaml"
_APPLY = "Exit code: 1 if the motors are of no use on these logs.\nExample: actuon fit apply servo.yaml new/*.csv"
_SELECT = "Example: actuon fit select runs/*.csv --robot robot.xml -o robot.actuon.yaml"
_NETWORK = "Example: actuon fit network mlp runs/*.csv --load mass=0.49 --load length=0.1 -o servo.safetensors"
_STOPPED = "Exit code: 130 after Ctrl+C; the best so far is still written."
_FLEET = "Example: actuon fit fleet robots/ --load mass=0.49 --load length=0.1 -o fleet.yaml"
_AUTHOR = "Example: actuon author robot.usda robot.actuon.yaml -o robot_with_motors.usda"
_EXCITE = "Example: actuon fit excite next.csv --load mass=0.49 --load length=0.1 --limit position=-1.5:1.5"
_INIT = "Next: replace a PD entry by a real motor (`motor: ak80-9`, see `actuon motors`), then `actuon check ROBOT`."
_RUN = "Exit code: 1 if a run diverges, loses its targets or stays at a limit; results are still saved."

_add(app, START, robot.init, "init ROBOT [-o FILE]", _INIT)
motors_app = _add(app, START, motors.motors, "motors [show NAME]", "Example: actuon motors show ak80-9")
_add(motors_app, COMMANDS, motors.show, "motors show NAME", "Next: `motor: NAME` in an actuon.yaml selects it.")
_add(app, START, studio.studio, "studio ROBOT|MOTOR [OPTIONS]", "Example: actuon studio ak80-9")

_add(app, CHECK, robot.inspect, "inspect ROBOT [OPTIONS]", f"{_SAFE}, 2 file cannot be read.")
_add(app, CHECK, robot.check, "check ROBOT [--dt SECONDS]", f"{_SAFE} or unstable, 2 file cannot be read.")
_add(app, CHECK, run.run, "run ROBOT [OPTIONS]", _RUN)
_add(app, CHECK, robot.plot, "plot WHAT... [OPTIONS]", "Example: actuon plot ak80-9 mini-cheetah -o compared.png")

fit_app = _add(
    app, IDENTIFY, fit.fit, "fit LOG... -o FILE [OPTIONS]\n       actuon fit COMMAND ...", f"{_USELESS}\n{_FIT}"
)
_add(fit_app, COMMANDS, fit.inspect, "fit inspect LOG... [OPTIONS]", "Example: actuon fit inspect runs/*.csv")
_add(fit_app, COMMANDS, fit.select, "fit select LOG... -o FILE [OPTIONS]", f"{_USELESS}\n{_SELECT}")
_add(fit_app, COMMANDS, fit.apply, "fit apply FILE LOG... [OPTIONS]", _APPLY)
_add(fit_app, COMMANDS, fit.excite, "fit excite FILE.csv [LOG...] [OPTIONS]", f"{_STOPPED}\n{_EXCITE}")
_add(fit_app, COMMANDS, fit.network, "fit network KIND LOG... -o FILE.safetensors [OPTIONS]", f"{_STOPPED}\n{_NETWORK}")
_add(fit_app, COMMANDS, fit.fleet, "fit fleet FOLDER -o fleet.yaml [OPTIONS]", f"{_USELESS}\n{_FLEET}")

_add(app, CONVERT, robot.author, "author ROBOT ACTUATORS -o FILE", _AUTHOR)
_add(app, CONVERT, robot.export, "export ROBOT -o FILE", "Example: actuon export robot.xml -o robot.actuon.yaml")
