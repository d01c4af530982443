# SPDX-License-Identifier: Apache-2.0
"""Logs of real joints and robots: files to `Log`, in SI units and radians."""

from .gathering import log_files as log_files, read_logs as read_logs
from .log import JointLog as JointLog, Log as Log
from .mapping import ColumnMapping as ColumnMapping
from .reading import read_log as read_log
from .writing import save_log as save_log
