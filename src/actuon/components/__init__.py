# SPDX-License-Identifier: Apache-2.0
"""The physical effects an actuator is composed of: one file each, with its equation, config, law and class."""
