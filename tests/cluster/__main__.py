# Copyright (c) 2026, gpuops.defrag contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clusters to play with: `python -m tests.cluster up NAME`, `down NAME`, `list`, `build`. See README.md."""

from __future__ import annotations

import argparse
import gzip
import json
import time
from pathlib import Path

from . import fleet
from .plane import ControlPlane
from .programs import programs

CLUSTERS = Path(__file__).resolve().parents[2] / "build" / "clusters"


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
                keep=arguments.keep,
                cold_start=arguments.cold_start,
                seed=arguments.seed,
            )
            fleet.populate(plane.api, shape)
        print(f"{arguments.name} is up, after {time.monotonic() - began:.0f} s")
    print(f"export KUBECONFIG={plane.kubeconfig}")
    print(f"export PATH={programs()}:$PATH")


def down(arguments: argparse.Namespace) -> None:
    """Stop a cluster."""
    ControlPlane(CLUSTERS / arguments.name).stop()


def show(arguments: argparse.Namespace) -> None:
    """List the clusters."""
    for folder in sorted(CLUSTERS.glob("*/state.json")):
        plane = ControlPlane(folder.parent)
        print(f"{plane.folder.name:20} {'running' if plane.running else 'stopped':8} {plane.kubeconfig}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)
    start = commands.add_parser("up", help="start a cluster")
    start.set_defaults(run=up)
    start.add_argument("name", nargs="?", default="play")
    start.add_argument("--nodes", type=int, default=25)
    start.add_argument("--gpus", type=int, default=8, help="GPUs on each node")
    start.add_argument("--keep", type=float, default=0.68, help="share of the pods that stay")
    start.add_argument("--cold-start", type=float, default=0, metavar="SECONDS")
    start.add_argument("--seed", type=int, default=1)
    start.add_argument("--load", metavar="SNAPSHOT", help="a snapshot's nodes and pods instead")
    stop = commands.add_parser("down", help="stop a cluster")
    stop.set_defaults(run=down)
    stop.add_argument("name", nargs="?", default="play")
    commands.add_parser("list", help="list the clusters").set_defaults(run=show)
    commands.add_parser("build", help="build the programs").set_defaults(run=lambda arguments: print(programs()))
    arguments = parser.parse_args()
    arguments.run(arguments)


main()
