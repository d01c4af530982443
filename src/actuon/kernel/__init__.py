# SPDX-License-Identifier: Apache-2.0
"""From the structure of a chain to a kernel, and from a kernel to steps. Knows laws and names, no components."""
