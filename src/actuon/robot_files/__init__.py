# SPDX-License-Identifier: Apache-2.0
"""What a robot file says about actuators, whatever its format."""
