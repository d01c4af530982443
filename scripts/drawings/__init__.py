# SPDX-License-Identifier: Apache-2.0
"""Drawings and plots of the documentation, as SVG: ``python -m scripts.drawings`` writes them into ``docs/images``."""
