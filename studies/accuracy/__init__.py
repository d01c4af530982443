# SPDX-License-Identifier: Apache-2.0
"""How well fits predict real logs and find parameters again: the studies of ``docs/measured/accuracy.md``."""
