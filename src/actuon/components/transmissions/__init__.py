# SPDX-License-Identifier: Apache-2.0
"""What stands between motor and joint."""
