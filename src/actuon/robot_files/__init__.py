# SPDX-License-Identifier: Apache-2.0
"""Actuators in robot files: YAML, USD, fleets, BAM."""
