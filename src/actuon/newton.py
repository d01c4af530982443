# SPDX-License-Identifier: Apache-2.0
"""A drop-in ``newton.ModelBuilder`` that leaves Actuon's actuators in ``model.actuators``."""

from .attach.newton_builder import ModelBuilder as ModelBuilder
