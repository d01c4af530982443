# SPDX-License-Identifier: Apache-2.0
"""Reports on the drives and actuators in a robot's file, checks, and a first actuon.yaml."""
