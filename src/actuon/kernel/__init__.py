# SPDX-License-Identifier: Apache-2.0
"""Kernels that are written from a list of stages, and their launches. Independent of components."""
