# SPDX-License-Identifier: Apache-2.0
"""Actuators: configs, states, fused, staged and implicit steps."""
