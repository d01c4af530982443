# SPDX-License-Identifier: Apache-2.0
"""`RayWorkers` under its earlier name; see `workers`."""

from .workers import RayWorkers as RayWorkers
