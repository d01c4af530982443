# SPDX-License-Identifier: Apache-2.0
"""How parameters and configs are declared: once, for checks, files, help and tables alike."""
