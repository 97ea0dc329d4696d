# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real Kubernetes control plane with fake kubelets and GPUs, for tests and to play with. See README.md."""
