# SPDX-License-Identifier: Apache-2.0
"""Declarations of parameters and configs: one each, for checks, files, help and tables alike."""
