# SPDX-License-Identifier: Apache-2.0
"""Charts of actuators and of recordings."""
