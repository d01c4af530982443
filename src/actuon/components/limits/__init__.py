# SPDX-License-Identifier: Apache-2.0
"""What a motor can give."""
