# SPDX-License-Identifier: Apache-2.0
"""Plants of fits: a joint with a known load, or a whole robot."""
