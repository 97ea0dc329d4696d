# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What keeps services up while others are moved: PodDisruptionBudgets and annotations, as they are and as they are to be."""
