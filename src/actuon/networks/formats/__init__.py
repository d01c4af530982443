# SPDX-License-Identifier: Apache-2.0
"""Network files, one module for each format."""
