# SPDX-License-Identifier: Apache-2.0
"""`RayWorkers` under its former path; see `workers`."""

from .workers import RayWorkers as RayWorkers
