# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the stages of `make test`, as many side by side as there are cores: `stages.py [NAME…]`, all unless named.

Each writes to build/logs/NAME.log. The end of a failed one's log is shown, then every stage's time, and last the line
`N passed, N failed`, which counts tests where a stage runs pytest and one for every other stage.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tests/tools"
BUILD = ROOT / "build"
BIN = Path(sys.executable).parent
HERE = ".venv/collections/ansible_collections/gpuops/defrag"
COLLECTIONS = ROOT / ".venv/collections"
TYPED = ("plugins", "tests", "bench")
DOORS = "tests/integration/test_doors.py"
OVER_CLUSTERS = (
    "tests/integration/test_render.py::test_the_packs_are_what_the_roles_make_today",
    "tests/integration/test_fleet.py::test_a_cluster_that_does_not_answer_leaves_the_others_alone",
)
# Tests of their own stages, each of which takes minutes.
APART = {
    "carry-out": ("tests/integration/test_carry_out.py", "tests/integration/test_defragment.py"),
    "tuned": ("tests/integration/test_tuned.py",),
    "commands": ("tests/integration/test_documented_commands.py",),
    "clusters": ("tests/integration/test_fleet.py", "tests/integration/test_awx.py", "tests/integration/test_render.py"),
}
SCENARIOS = sorted(file.parent.name for file in ROOT.glob("extensions/molecule/*/molecule.yml"))


@dataclass(frozen=True, slots=True)
class Stage:
    """One check: shell commands that must all succeed, run from the repository root or in a clean copy of it."""

    name: str
    commands: tuple[str, ...]
    in_copy: bool = False


def pytest(name: str, arguments: str) -> Stage:
    return Stage(name, (f"pytest --junitxml build/results/{name}.xml {arguments}",))


def molecule(scenario: str) -> Stage:
    """A scenario on a control plane of its own; what molecule keeps of it is in build/ too."""
    variables = f"MOLECULE_PROVIDER=embedded MOLECULE_EPHEMERAL_DIRECTORY={BUILD}/molecule/{scenario}"
    test = f"{variables} molecule test --no-command-borders --scenario-name {scenario}"
    return Stage(f"molecule-{scenario}", ("python -m tests.cluster build", test))


def older(name: str, tests: str, collections: str = "") -> Stage:
    """Tests with an older ansible-core, and older collections if a command puts them into a folder."""
    folder = f"build/{name}"
    variables = f"ANSIBLE_PROGRAMS={folder}/bin"
    return Stage(
        name,
        (
            f"uv venv --quiet --clear --python .venv/bin/python {folder}",
            f"uv pip install --quiet --python {folder}/bin/python --require-hashes -r requirements-{name}.txt",
            *([f"{collections} {folder}/collections"] if collections else []),
            f"{variables}{f' ANSIBLE_COLLECTIONS_PATH={folder}/collections' * bool(collections)} "
            f"pytest --junitxml build/results/{name}.xml {tests}",
        ),
    )


# The longest first, so that none of them starts when the others are done.
STAGES = (
    Stage("sanity", (f"python {TOOLS}/sanity.py",), in_copy=True),
    pytest("unit", "-n 2 --cov --cov-report=term tests/unit"),
    *(pytest(name, " ".join(files)) for name, files in APART.items()),
    pytest("integration", f"tests/integration {' '.join(f'--ignore {file}' for files in APART.values() for file in files)}"),
    *map(molecule, SCENARIOS),
    # The same with the oldest of everything that README.md promises, over live clusters too; and with what lies between.
    older("oldest", " ".join((DOORS, *OVER_CLUSTERS)), "tests/tools/collections.sh requirements-oldest-collections.txt"),
    older("core-2-19", f"{DOORS} -k 'not ansible_doc'"),
    *([older("core-2-20", f"{DOORS} -k 'not ansible_doc'")] if sys.version_info >= (3, 12) else []),
    Stage("ansible-lint", ("ansible-lint",), in_copy=True),
    Stage("galaxy", (f"python {TOOLS}/galaxy.py",), in_copy=True),
    Stage("mypy", (f"mypy {' '.join(f'{HERE}/{folder}' for folder in TYPED)}",)),
    # It copies kubernetes.core for its fragments, but below a git repository only what is tracked: there it is to see none.
    Stage("docs", (f"GIT_CEILING_DIRECTORIES={ROOT}/.venv antsibull-docs lint-collection-docs --plugin-docs .",)),
    Stage("ruff", ("ruff check", "ruff format --check")),
    Stage("licences", ("reuse lint",)),
    Stage("changelog", ("antsibull-changelog lint",)),
)


@dataclass(frozen=True, slots=True)
class Result:
    stage: Stage
    ok: bool
    seconds: float
    passed: int
    failed: int
    skipped: int


def own_files() -> Iterator[Path]:
    """What is or could be committed: tracked files that exist, and new ones that nothing ignores; relative paths."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in set(listing.split("\0")) - {""}:
        if (ROOT / name).is_file():
            yield Path(name)


def clean_copy(name: str) -> Path:
    """Our files alone in build/copies/NAME/ansible_collections/gpuops/defrag, beside kubernetes.core, as tools expect it."""
    collections = BUILD / "copies" / name / "ansible_collections"
    shutil.rmtree(collections.parent, ignore_errors=True)
    copy = collections / "gpuops/defrag"
    for file in own_files():
        (copy / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / file, copy / file)
    shutil.copytree(COLLECTIONS / "ansible_collections/kubernetes", collections / "kubernetes")
    # A repository of its own: tools that ask git for the files must not meet the outer one, which ignores build/.
    subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)
    subprocess.run(["git", "add", "--all"], cwd=copy, check=True)
    return copy


def say(line: str) -> None:
    """Print a line in one piece, as stages speak at the same time."""
    print(f"{line}\n", end="", flush=True)


def run(stage: Stage) -> Result:
    say(f"{stage.name:<20} …")
    start = time.monotonic()
    report = BUILD / f"results/{stage.name}.xml"
    report.unlink(missing_ok=True)
    place = clean_copy(stage.name) if stage.in_copy else ROOT
    first = 20000 + 500 * STAGES.index(stage)
    ports = f"{first}-{first + 500}"
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "NO_COLOR": "1", "TEST_PORTS": ports}
    if stage.in_copy:
        environment["ANSIBLE_COLLECTIONS_PATH"] = str(place.parents[2])
    with (BUILD / f"logs/{stage.name}.log").open("w") as log:

        def succeeds(command: str) -> bool:
            done = subprocess.run(
                command, shell=True, cwd=place, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
            )
            return done.returncode == 0

        ok = all(succeeds(command) for command in stage.commands)
    passed, failed, skipped = counts(report) if report.exists() else (int(ok), int(not ok), 0)
    result = Result(stage, ok, time.monotonic() - start, passed, max(failed, int(not ok)), skipped)
    say(f"{stage.name:<20} {'ok' if ok else 'FAILED'} after {result.seconds:.1f} s")
    return result


def counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped tests of a JUnit report."""
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    tests, failed, skipped = 0, 0, 0
    for suite in suites:
        tests += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return tests - failed - skipped, failed, skipped


def main(names: list[str]) -> int:
    if unknown := set(names) - {stage.name for stage in STAGES}:
        print(f"no such stage: {', '.join(sorted(unknown))}; there are {', '.join(stage.name for stage in STAGES)}")
        return 2
    wanted = [stage for stage in STAGES if not names or stage.name in names]
    for folder in ("logs", "results", "cache"):
        (BUILD / folder).mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        results = [future.result() for future in as_completed([pool.submit(run, stage) for stage in wanted])]
    for result in results:
        if not result.ok:
            log = BUILD / f"logs/{result.stage.name}.log"
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-60:])
            print(f"\n==== {result.stage.name}: the end of {log.relative_to(ROOT)}\n{tail}")
    print("\nstage                seconds")
    for result in results:
        print(f"{result.stage.name:<20} {result.seconds:7.1f}  {'ok' if result.ok else 'FAILED'}")
    print(f"{'together':<20} {time.monotonic() - start:7.1f}\n")
    passed, failed, skipped = (sum(getattr(result, key) for result in results) for key in ("passed", "failed", "skipped"))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
