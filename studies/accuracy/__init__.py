# SPDX-License-Identifier: Apache-2.0
"""Studies of ``docs/measured/accuracy.md``: prediction of real logs, and known parameters that fits must find."""
