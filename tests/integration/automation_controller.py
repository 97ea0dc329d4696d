# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""As much of AWX's API on loopback as ansible-rulebook speaks: templates are found and launched, and jobs succeed at once."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Object = dict[str, Any]

ASKS = ("ask_limit_on_launch", "ask_labels_on_launch", "ask_inventory_on_launch", "ask_variables_on_launch")


class AutomationController:
    """Templates as ``controller_templates`` describes them; ``launched`` is what came: the template's name and what it got.

    As AWX does, it drops what a template does not ask for, and refuses a launch that leaves a required question of the survey
    open, whatever the question's default.
    """

    def __init__(self, templates: list[Object], token: str) -> None:
        self.templates = templates
        self.token = token
        self.launched: list[tuple[str, Object]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(owner.read(urlsplit(self.path).path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                number = int(urlsplit(self.path).path.split("/")[-3])
                missing = owner.missing(number, body)
                if missing:
                    self.answer({"variables_needed_to_start": missing}, 400)
                else:
                    self.answer(owner.launch(number, body))

            def answer(self, content: Object, status: int = 200) -> None:
                allowed = self.headers["Authorization"] == f"Bearer {owner.token}"
                data = json.dumps(content if allowed else {"detail": "no"}).encode()
                self.send_response(status if allowed else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    def stop(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()

    def read(self, path: str) -> Object:
        """What a GET gives."""
        if path.endswith("/unified_job_templates/"):
            found = [self._template(number, template) for number, template in enumerate(self.templates)]
            return {"count": len(found), "next": None, "results": found}
        if path.endswith("/jobs/"):
            jobs = [self._job(number) for number in range(len(self.launched))]
            return {"count": len(jobs), "next": None, "results": jobs}
        return {"version": "24.6.1"}

    def missing(self, number: int, body: Mapping[str, Any]) -> list[str]:
        """Required questions that a launch leaves open."""
        asked = self.templates[number].get("survey_spec", {}).get("spec", [])
        return [each["variable"] for each in asked if each["required"] and each["variable"] not in body.get("extra_vars", {})]

    def launch(self, number: int, body: Mapping[str, Any]) -> Object:
        """Start a job."""
        template = self.templates[number]
        asked = {"limit": "ask_limit_on_launch", "extra_vars": "ask_variables_on_launch"}
        given = {key: value for key, value in body.items() if template.get(asked.get(key, ""), False)}
        self.launched.append((template["name"], given))
        return self._job(len(self.launched) - 1)

    def _template(self, number: int, template: Object) -> Object:
        return {
            "id": number,
            "type": "job_template",
            "name": template["name"],
            "summary_fields": {"organization": {"name": template.get("organization", "Default")}},
            "related": {"launch": f"/api/v2/job_templates/{number}/launch/"},
            **{ask: template.get(ask, False) for ask in ASKS},
        }

    def _job(self, number: int) -> Object:
        now = "2026-01-01T00:00:00Z"
        return {"id": number, "url": f"/api/v2/jobs/{number}/", "status": "successful", "created": now, "artifacts": {}}
