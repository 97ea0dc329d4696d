# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""How fragmented a cluster's GPUs are, who waits for them, and what it costs."""
