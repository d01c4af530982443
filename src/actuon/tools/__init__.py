# SPDX-License-Identifier: Apache-2.0
"""Programs for people: demos and benchmarks. Nothing in the library imports them."""
