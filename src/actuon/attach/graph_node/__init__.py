# SPDX-License-Identifier: Apache-2.0
"""A node for graph editors, and a runner of graphs, public as `actuon.graph`."""
