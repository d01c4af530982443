# SPDX-License-Identifier: Apache-2.0
"""Data sheets of motors as actuators, and a catalogue."""
