# SPDX-License-Identifier: Apache-2.0
"""Actuon beside Newton's actuators, PyTorch and copying the same bytes, measured in one run on this machine."""
