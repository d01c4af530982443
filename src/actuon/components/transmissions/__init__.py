# SPDX-License-Identifier: Apache-2.0
"""Transmissions between motor and joint."""
