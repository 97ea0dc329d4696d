# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection in the current directory as Galaxy would be given it, import it as Galaxy does, and install and use it.

Fails on whatever the importer warns of, on a file in the archive that a user of the collection has no use for, and if the
archive, beside nothing but ansible-core, does not audit the example that it brings.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

SHIPPED = {
    *("CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "LICENSES", "MANIFEST.json", "README.md"),
    *("changelogs", "docs", "examples", "extensions", "meta", "playbooks", "plugins", "policies", "roles"),
}

STRAY = re.compile(r"(^|/)(\.|__pycache__|molecule/|fragments/)|\.(pyc|retry|log|orig|rej)$")


def audits(archive: Path) -> bool:
    """Whether the archive, installed into an environment that has ansible-core and nothing else, audits its example."""
    clean = archive.resolve().parent / "clean"
    python, collections, report = clean / "venv/bin/python", clean / "collections", clean / "report"
    subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, clean / "venv"], check=True)
    install: list[str | Path] = [
        "uv",
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "--require-hashes",
        "-r",
        "requirements-core-2-19.txt",
    ]
    subprocess.run(install, check=True)
    environment = {"PATH": f"{python.parent}:{os.environ['PATH']}", "HOME": str(clean), "LANG": "C.UTF-8"}
    environment |= {"ANSIBLE_COLLECTIONS_PATH": str(collections)}

    def run(*command: str | Path) -> None:
        subprocess.run(command, cwd=clean, env=environment, check=True)

    # kubernetes.core, which Galaxy would bring, only reads live clusters.
    run("ansible-galaxy", "collection", "install", archive.resolve(), "--no-deps", "--offline", "-p", collections)
    example = collections / "ansible_collections/gpuops/defrag/examples/gpu200-1.json.gz"
    run("ansible-playbook", "gpuops.defrag.audit", "-e", f"src={example}", "-e", f"report_dir={report}")
    return (report / "audit.html").is_file()


def main() -> int:
    tools = Path(sys.executable).parent
    subprocess.run([tools / "ansible-galaxy", "collection", "build", "--output-path", "../../.."], check=True)
    (archive,) = Path("../../..").glob("*.tar.gz")

    with tarfile.open(archive) as content:
        names = content.getnames()
    stray = sorted({name.split("/")[0] for name in names} - SHIPPED) + sorted(filter(STRAY.search, names))
    print(f"{archive.name}: {archive.stat().st_size} bytes")

    # The importer unpacks the archive alone; documentation that kubernetes.core shares is found where Python looks too.
    beside = str(Path("../../..").resolve())
    environment = os.environ | {"GALAXY_IMPORTER_CHECK_REQUIRED_TAGS": "true", "PYTHONPATH": beside}
    importer: list[str | Path] = [sys.executable, "-m", "galaxy_importer.main", archive]
    imported = subprocess.run(importer, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(imported.stdout)
    complaints = [line for line in imported.stdout.splitlines() if line.startswith(("WARNING", "ERROR"))]
    if imported.returncode == 0:
        result = json.loads(Path("importer_result.json").read_text())
        modules = [item for item in result["docs_blob"]["contents"] if item["content_type"] == "module"]
        complaints += [f"no documentation: {module['content_name']}" for module in modules if not module["doc_strings"]]
    complaints += [] if audits(archive) else ["installed alone, it wrote no audit"]
    complaints += [f"the archive has {name}, which no user needs: build_ignore in galaxy.yml" for name in stray]
    print("\n".join(complaints))
    return int(bool(complaints) or imported.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
