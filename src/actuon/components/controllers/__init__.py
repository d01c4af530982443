# SPDX-License-Identifier: Apache-2.0
"""Turns commands into efforts."""
