# SPDX-License-Identifier: Apache-2.0
"""Robots in Newton."""
