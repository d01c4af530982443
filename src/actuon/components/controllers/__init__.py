# SPDX-License-Identifier: Apache-2.0
"""What makes effort out of commands."""
