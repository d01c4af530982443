# SPDX-License-Identifier: Apache-2.0
"""What a controller sees of the joint."""
