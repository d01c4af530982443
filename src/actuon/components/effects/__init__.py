# SPDX-License-Identifier: Apache-2.0
"""What is lost or late on the way from the motor to the joint."""
