# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""A cluster as the scheduler sees it: who is where, what fits where, which nodes are alternatives."""
