# SPDX-License-Identifier: Apache-2.0
"""How near actuators on robots are to diverging. What is public of it, `check` and `CheckResult`, is in `actuon`."""
