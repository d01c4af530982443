# SPDX-License-Identifier: Apache-2.0
"""What a robot's file says about its drives and actuators: reports, checks, a first actuon.yaml."""
