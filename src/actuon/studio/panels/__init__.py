# SPDX-License-Identifier: Apache-2.0
"""The tabs of the page."""
