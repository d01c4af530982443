# SPDX-License-Identifier: Apache-2.0
"""A robot that moves with its real motors and with ideal ones: motion, simulation, plots, film."""
