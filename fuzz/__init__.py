# SPDX-License-Identifier: Apache-2.0
"""Random chains, networks, robot files and command lines against independent references: docs/project/fuzzing.md."""
