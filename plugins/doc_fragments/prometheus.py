# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a Prometheus is asked; the argument spec is PROMETHEUS_ARGUMENTS in module_utils/_prometheus_arguments.py."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  prometheus_url:
    description:
      - Address of Prometheus, or of what speaks like it (Thanos, Mimir, VictoriaMetrics), up to but without C(/api/v1).
    type: str
  prometheus_headers:
    description: HTTP headers for it, such as C(X-Scope-OrgID) for a tenant of Mimir.
    type: dict
    default: {}
  prometheus_token:
    description: A bearer token for it.
    type: str
  prometheus_username:
    description: User for basic authentication, with O(prometheus_password).
    type: str
  prometheus_password:
    description: See O(prometheus_username).
    type: str
  prometheus_ca_cert:
    description: File of the certificate authorities that it is checked by, instead of those of the system.
    type: path
  prometheus_client_cert:
    description: File of a client certificate to show it, in PEM. It may hold the key too.
    type: path
  prometheus_client_key:
    description: File of the key of O(prometheus_client_cert).
    type: path
  prometheus_validate_certs:
    description: Whether its certificate is checked.
    type: bool
    default: true
  prometheus_proxy:
    description: Proxy on the way to it. By default what the environment says, by C(https_proxy) and C(no_proxy).
    type: str
  prometheus_timeout:
    description:
      - Seconds that one request to it may take. One that finds no connection, too many requests or an error of the server is
        made again, for half a minute at the most.
    type: int
    default: 30
notes:
  - Redirects of Prometheus are not followed; credentials are sent to O(prometheus_url) alone.
"""
