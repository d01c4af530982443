# SPDX-License-Identifier: Apache-2.0
"""Sensors between a joint and its controller."""
