# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters to play with: `python -m tests.cluster up NAME`, `down NAME`, `list`, …. See README.md."""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

from . import descheduler, fleet, sampling
from .kubelets import Kubelets
from .monitoring import Monitoring
from .plane import ControlPlane
from .programs import programs

CLUSTERS = Path(__file__).resolve().parents[2] / "build" / "clusters"
MONITORING = "monitoring"


def up(arguments: argparse.Namespace) -> None:
    """Start a cluster, put nodes and pods on it, and say how to reach it."""
    programs()
    began = time.monotonic()
    plane = ControlPlane(CLUSTERS / arguments.name)
    if plane.running:
        print(f"{arguments.name} is up already")
    else:
        plane.start()
        if arguments.load:
            opener = gzip.open if arguments.load.endswith(".gz") else open
            with opener(arguments.load, "rt", encoding="utf-8") as file:
                fleet.load(plane.api, json.load(file)["items"], cold_start=arguments.cold_start)
        else:
            shape = fleet.Shape(
                nodes=arguments.nodes,
                gpus=arguments.gpus,
                products=tuple(arguments.product or fleet.PRODUCTS),
                labels=dict(label.split("=", 1) for label in arguments.label),
                taints=tuple(map(_taint, arguments.taint)),
                cpu_nodes=arguments.cpu_nodes,
                keep=arguments.keep,
                cold_start=arguments.cold_start,
                seed=arguments.seed,
            )
            fleet.populate(plane.api, shape)
        print(f"{arguments.name} is up, after {time.monotonic() - began:.0f} s")
    print(f"export KUBECONFIG={plane.kubeconfig}")
    print(f"export PATH={programs()}:$PATH")


def kubelets(arguments: argparse.Namespace) -> None:
    """Play the kubelets of fake nodes on a cluster that runs elsewhere."""
    programs()
    played = Kubelets(CLUSTERS / arguments.name, arguments.kubeconfig.resolve(), arguments.nodes)
    if played.running:
        print(f"the kubelets of {arguments.name} run already")
    else:
        played.start()
        print(f"the kubelets of {arguments.name} run")


def chart(arguments: argparse.Namespace) -> None:
    """Copy the descheduler's chart, as if it were the version asked for."""
    print(descheduler.copy_chart(arguments.folder, arguments.version, lacking=arguments.lacking))


def monitor(arguments: argparse.Namespace) -> None:
    """Start a Prometheus beside a cluster, which reads rule files as they come, and say where."""
    plane = ControlPlane(CLUSTERS / arguments.name)
    found = Monitoring(plane.folder / MONITORING, plane, rules=[rules.resolve() for rules in arguments.rules])
    print(f"{'it runs already' if found.running else 'started'}: {found.start().url}")


def deschedule(arguments: argparse.Namespace) -> None:
    """Run the installed descheduler once."""
    print(descheduler.as_json(descheduler.run_installed(arguments.kubeconfig, arguments.namespace, arguments.release)))


def stick(arguments: argparse.Namespace) -> None:
    """Leave a Helm release as if helm had been killed."""
    descheduler.stick(arguments.kubeconfig, arguments.namespace, arguments.release)


def objects(arguments: argparse.Namespace) -> None:
    """Name everything that is on a cluster and stays unless somebody removes it."""
    print("\n".join(descheduler.objects(arguments.kubeconfig)))


def sample(arguments: argparse.Namespace) -> None:
    """Look at pods and budgets again and again until FILE.stop is there, and write what was seen."""
    sampling.sample(arguments.kubeconfig, arguments.namespace, arguments.report)


def _taint(text: str) -> dict[str, str]:
    """A taint as kubectl writes it: KEY=VALUE:EFFECT or KEY:EFFECT."""
    named, effect = text.rsplit(":", 1)
    key, value = f"{named}=".split("=")[:2]
    return {"key": key, "value": value, "effect": effect}


def schedule(arguments: argparse.Namespace) -> None:
    """Start a cluster's scheduler anew, with a configuration or its defaults, and say where it listens."""
    plane = ControlPlane(CLUSTERS / arguments.name)
    plane.schedule_by(arguments.config.resolve() if arguments.config else None)
    print(plane.scheduler_url)


def down(arguments: argparse.Namespace) -> None:
    """Stop a cluster and the Prometheus beside it, or the kubelets of one."""
    for folder in (CLUSTERS / arguments.name / MONITORING, CLUSTERS / arguments.name):
        ControlPlane(folder).stop()


def show(arguments: argparse.Namespace) -> None:
    """List the clusters."""
    for folder in sorted(CLUSTERS.glob("*/state.json")):
        plane = ControlPlane(folder.parent)
        reached_by = plane.kubeconfig if plane.kubeconfig.exists() else "kubelets of another cluster"
        print(f"{plane.folder.name:20} {'running' if plane.running else 'stopped':8} {reached_by}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("up", help="start a cluster")
    start.set_defaults(run=up)
    start.add_argument("name", nargs="?", default="play")
    start.add_argument("--nodes", type=int, default=25)
    start.add_argument("--gpus", type=int, default=8, help="GPUs on each node")
    start.add_argument("--product", action="append", help="a product label; several are dealt out in turn")
    start.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="a label of every GPU node")
    start.add_argument("--taint", action="append", default=[], metavar="KEY=VALUE:EFFECT", help="a taint of every GPU node")
    start.add_argument("--cpu-nodes", type=int, default=2)
    start.add_argument("--keep", type=float, default=0.68, help="share of the pods that stay")
    start.add_argument("--cold-start", type=float, default=0, metavar="SECONDS")
    start.add_argument("--seed", type=int, default=1)
    start.add_argument("--load", metavar="SNAPSHOT", help="a snapshot's nodes and pods instead")
    play = commands.add_parser("kubelets", help="play the kubelets of fake nodes on another cluster")
    play.set_defaults(run=kubelets)
    play.add_argument("name")
    play.add_argument("kubeconfig", type=Path, help="its current context is the cluster")
    play.add_argument("--nodes", required=True, metavar="SELECTOR", help="labels of the fake nodes")
    scheduler = commands.add_parser("scheduler", help="start the scheduler of a cluster anew")
    scheduler.set_defaults(run=schedule)
    scheduler.add_argument("name")
    scheduler.add_argument("--config", type=Path, help="a KubeSchedulerConfiguration; without it, Kubernetes' defaults")
    looking = commands.add_parser("monitor", help="start a Prometheus beside a cluster")
    looking.set_defaults(run=monitor)
    looking.add_argument("name")
    looking.add_argument("rules", type=Path, nargs="*", help="rule files, which may come later, or patterns of them")
    stop = commands.add_parser("down", help="stop a cluster, or the kubelets of one")
    stop.set_defaults(run=down)
    stop.add_argument("name", nargs="?", default="play")
    copy = commands.add_parser("chart", help="copy the descheduler's chart")
    copy.set_defaults(run=chart)
    copy.add_argument("folder", type=Path)
    copy.add_argument("version", help="of chart and program, as 0.36.0")
    copy.add_argument("--lacking", action="append", default=[], metavar="RESOURCE", help="grant no right to it")
    for run, told in (
        (deschedule, "run the installed descheduler once, and tell what it did as JSON"),
        (stick, "leave a Helm release as if helm had been killed in an upgrade"),
    ):
        installed = commands.add_parser(run.__name__, help=told)
        installed.set_defaults(run=run)
        installed.add_argument("kubeconfig", type=Path)
        installed.add_argument("namespace")
        installed.add_argument("release", help="its name, which its CronJob or Deployment bears")
    every = commands.add_parser("objects", help="name all objects of a cluster that last")
    every.set_defaults(run=objects)
    every.add_argument("kubeconfig", type=Path)
    looks = commands.add_parser("sample", help="count Ready pods and budgets until REPORT.stop is there")
    looks.set_defaults(run=sample)
    looks.add_argument("kubeconfig", type=Path)
    looks.add_argument("namespace")
    looks.add_argument("report", type=Path, help="a file that ends in .json")
    commands.add_parser("list", help="list the clusters").set_defaults(run=show)
    commands.add_parser("build", help="build the programs").set_defaults(run=lambda arguments: print(programs()))
    arguments = parser.parse_args()
    arguments.run(arguments)


main()
