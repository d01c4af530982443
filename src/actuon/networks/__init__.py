# SPDX-License-Identifier: Apache-2.0
"""Actuator networks: from a file to weights, and from weights to compiled code. No framework is needed to run one."""
