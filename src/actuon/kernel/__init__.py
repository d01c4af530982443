# SPDX-License-Identifier: Apache-2.0
"""Kernels written from the structure of a chain, and their launches. Knows laws and names, no components."""
