# SPDX-License-Identifier: Apache-2.0
"""Actuon's version."""

__version__ = "0.1.0"
