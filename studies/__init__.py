# SPDX-License-Identifier: Apache-2.0
"""Studies: accuracy on real data, and what was left out of a loop."""
