# SPDX-License-Identifier: Apache-2.0
"""The ``actuon`` command: one thin function per command. Nothing in the library imports it."""
