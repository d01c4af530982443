# SPDX-License-Identifier: Apache-2.0
"""Actuator groups, public as `actuon.lab`."""
