# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: BSD-2-Clause

"""Kubernetes objects as typed data: quantities, selectors, requests, and the way from API JSON."""
