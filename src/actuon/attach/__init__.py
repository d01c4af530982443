# SPDX-License-Identifier: Apache-2.0
"""Actuators on robots in engines, on arrays, and in other simulators."""
