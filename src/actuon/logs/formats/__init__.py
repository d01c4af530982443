# SPDX-License-Identifier: Apache-2.0
"""One file format per module: files to a `Table`."""
