# SPDX-License-Identifier: Apache-2.0
"""Stability of actuators on robots. The public names, `check` and `CheckResult`, are in `actuon`."""
