# SPDX-License-Identifier: Apache-2.0
"""Losses and lags on the way from the motor to the joint."""
