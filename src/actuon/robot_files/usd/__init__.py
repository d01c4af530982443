# SPDX-License-Identifier: Apache-2.0
"""Actuators in the robot's USD file, with the shared Newton schema. Importing this loads `pxr`."""

from ...errors import MissingExtraError

try:
    import pxr
except ImportError as error:
    raise MissingExtraError("usd-core", "usd", "reading and writing actuators in USD") from error
