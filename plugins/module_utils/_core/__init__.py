# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""The domain of gpuops.defrag: typed data and pure functions.

Nothing here imports Ansible or a Kubernetes client, opens a file or asks a clock.
"""
