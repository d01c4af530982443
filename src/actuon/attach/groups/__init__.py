# SPDX-License-Identifier: Apache-2.0
"""Groups of joints by name pattern. What is public of them is in `actuon.lab`."""
