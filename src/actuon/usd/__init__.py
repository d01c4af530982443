# SPDX-License-Identifier: Apache-2.0
"""Actuators in the robot's USD file, with the shared Newton schema. Importing this loads `pxr`."""

from ..errors import MissingExtraError

try:
    import pxr
except ImportError as error:
    raise MissingExtraError("usd-core", "usd", "reading and writing actuators in USD") from error

from .author import add_actuator as add_actuator, author_actuators as author_actuators
from .parse import (
    export_actuators as export_actuators,
    parse_actuator_prim as parse_actuator_prim,
    parse_actuators as parse_actuators,
)
from .report import Report as Report, inspect_actuators as inspect_actuators
from .stage import current_stage as current_stage, open_stage as open_stage, use_stage as use_stage
