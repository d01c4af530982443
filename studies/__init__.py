# SPDX-License-Identifier: Apache-2.0
"""Studies on real data."""
