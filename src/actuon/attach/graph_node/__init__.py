# SPDX-License-Identifier: Apache-2.0
"""A node for graph editors, and a runner of graphs. What is public of them is in `actuon.graph`."""
