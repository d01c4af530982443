# SPDX-License-Identifier: Apache-2.0
"""Losses and lags between motor and joint."""
