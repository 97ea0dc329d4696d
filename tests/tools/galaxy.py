# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the collection in the current directory as Galaxy would be given it, and import it as Galaxy does.

Fails on whatever the importer warns of, and on a file in the archive that a user of the collection has no use for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

SHIPPED = {
    *("CHANGELOG.md", "CONTRIBUTING.md", "FILES.json", "LICENSE", "LICENSES", "MANIFEST.json", "README.md"),
    *("changelogs", "docs", "examples", "extensions", "meta", "playbooks", "plugins", "policies", "roles"),
}


def main() -> int:
    tools = Path(sys.executable).parent
    subprocess.run([tools / "ansible-galaxy", "collection", "build", "--output-path", "../../.."], check=True)
    (archive,) = Path("../../..").glob("*.tar.gz")

    with tarfile.open(archive) as content:
        stray = sorted({name.split("/")[0] for name in content.getnames()} - SHIPPED)
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
    complaints += [f"the archive has {name}, which no user needs: build_ignore in galaxy.yml" for name in stray]
    print("\n".join(complaints))
    return int(bool(complaints) or imported.returncode != 0)


if __name__ == "__main__":
    sys.exit(main())
