# SPDX-License-Identifier: Apache-2.0
"""From logs of real joints and robots to actuators that predict them."""
