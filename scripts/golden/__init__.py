# SPDX-License-Identifier: Apache-2.0
"""Golden files: bits of everything that Actuon computes, to compare a rebuild with the commit before it."""
