# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""What GitOps takes: who keeps an object elsewhere, and manifests as the files of a repository."""
