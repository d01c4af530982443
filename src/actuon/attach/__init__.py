# SPDX-License-Identifier: Apache-2.0
"""Actuators on robots in an engine: one attachment, and the ways in."""
