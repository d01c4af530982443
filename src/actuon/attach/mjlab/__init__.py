# SPDX-License-Identifier: Apache-2.0
"""Actuators of entities in mjlab."""
