# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run `ansible-test sanity` in the current directory, a collection root, without containers and with nothing ignored.

ansible-test fetches a get-pip script. When it cannot, it says where a script may be put by hand: get_pip.py goes there
and it runs again.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

PLACE_OF_GET_PIP = re.compile(r"bootstrap script can be manually downloaded and saved to: (\S+)")


def runs(python: Path) -> bool:
    return subprocess.run([python, "-c", ""], stderr=subprocess.DEVNULL, check=False).returncode == 0


def search_path() -> str:
    """PATH with the Pythons that run, as ansible-test tries every `python3.N` it meets there.

    The folder of shims that pyenv puts first has names that fail; the versions behind them are appended.
    """
    given = [Path(folder) for folder in os.environ["PATH"].split(os.pathsep)]
    sound = [folder for folder in given if all(runs(python) for python in folder.glob("python3.[0-9]*[0-9]"))]
    return os.pathsep.join(map(str, [*sound, *sorted(Path.home().glob(".pyenv/versions/3.1[1-9].*/bin"))]))


def sanity() -> tuple[int, str]:
    """Its exit status and all it printed, which is shown as it comes."""
    command = [str(Path(sys.executable).with_name("ansible-test")), "sanity", "--local", "--color", "no", *sys.argv[1:]]
    lines = []
    environment = os.environ | {"PATH": search_path()}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    return process.returncode, "".join(lines)


def main() -> int:
    if ignored := list(Path("tests/sanity").glob("ignore*.txt")):
        print(f"nothing may be ignored, yet there is {ignored[0]}")
        return 1
    status, output = sanity()
    if status and (place := PLACE_OF_GET_PIP.search(output)):
        shutil.copy(Path(__file__).with_name("get_pip.py"), place[1])
        status, output = sanity()
    return status


if __name__ == "__main__":
    sys.exit(main())
