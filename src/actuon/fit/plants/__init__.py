# SPDX-License-Identifier: Apache-2.0
"""What actuators move in a fit: a joint with a known load, or a whole robot."""
