# SPDX-License-Identifier: Apache-2.0
"""Effects between motor and joint: friction, current loop, ripple, noise."""
