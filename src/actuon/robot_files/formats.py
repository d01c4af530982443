# SPDX-License-Identifier: Apache-2.0
"""Endings of files of robots and actuators, in small letters."""

USD_FORMATS = (".usda", ".usd", ".usdc", ".usdz")
USD_WRITTEN = (".usda", ".usd", ".usdc")
"""USD formats that can be written. A ``.usdz`` is an archive of the others."""
MUJOCO_FORMATS = (".xml", ".urdf", ".mjb")
"""Formats that MuJoCo reads."""
YAML_FORMATS = (".yaml", ".yml")
