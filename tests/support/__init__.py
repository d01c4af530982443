# SPDX-License-Identifier: Apache-2.0
"""Oracles, chains, robots and networks that tests share."""
