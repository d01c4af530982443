# SPDX-License-Identifier: Apache-2.0
"""Programs that developers run to write files of the project."""
