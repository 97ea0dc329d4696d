.DEFAULT_GOAL := help
.PHONY: help system setup demo test lint sanity unit bench bench-defragment bench-tune bench-tune-live cluster cluster-down packs lock clean

LOCKED := requirements-dev.txt requirements-collections.txt
STAMP := .venv/stamp
STAGES := .venv/bin/python tests/tools/stages.py
COMPILE := .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	--custom-compile-command 'make lock'

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

$(STAMP): tests/tools/setup.sh tests/tools/collections.sh $(LOCKED)
	@tests/tools/setup.sh

system:
	@tests/tools/system.sh

setup: $(STAMP)  ## build .venv with the locked tools and kubernetes.core, if it is missing or out of date

demo: $(STAMP)  ## audit a bundled example cluster: a table here, JSON and an HTML page in build/demo
	@.venv/bin/ansible-playbook gpuops.defrag.audit -e src=examples/gpu200-1.json.gz -e report_dir=build/demo -e gpu_hour_price=3
	@for page in build/demo/*.html; do echo "The same as a page: $$PWD/$$page"; done

test: system $(STAMP)  ## every check
	@$(STAGES)

lint: $(STAMP)  ## ruff, mypy, ansible-lint, documentation, changelog and licence lint
	@$(STAGES) ruff mypy ansible-lint docs changelog licences

sanity: $(STAMP)  ## ansible-test sanity, with nothing ignored
	@$(STAGES) sanity

unit: $(STAMP)  ## unit tests with branch coverage
	@$(STAGES) unit

bench: $(STAMP)  ## time and memory of the core on large clusters
	@.venv/bin/python -m bench

bench-defragment: $(STAMP)  ## defragment a real control plane, and let upstream try: minutes
	@.venv/bin/python -m bench.defragment

bench-tune: $(STAMP)  ## hours of cluster time under the law of the rate, simulated
	@.venv/bin/python -m bench.tune

bench-tune-live: $(STAMP)  ## the same on a real control plane, scraped by Prometheus: more than half an hour
	@.venv/bin/python -m bench.tune_live

cluster: $(STAMP)  ## a fragmented test cluster of 25 x 8 fake GPUs to play with
	@.venv/bin/python -m tests.cluster up

cluster-down: $(STAMP)  ## stop it
	@.venv/bin/python -m tests.cluster down

packs: $(STAMP)  ## render policies/ again, after a change of what the roles would apply
	@.venv/bin/python -m tests.cluster chart build/charts 0.36.0
	@.venv/bin/ansible-playbook gpuops.defrag.render -e render_dir=policies -e descheduler_chart_ref=$$PWD/build/charts/descheduler \
		-e helm_binary=$$(.venv/bin/python -m tests.cluster build)/helm

lock: $(STAMP)  ## lock the newest development dependencies
	@$(COMPILE) --group dev --output-file requirements-dev.txt
	@$(COMPILE) --group collections --no-deps --output-file requirements-collections.txt
	@$(COMPILE) --group oldest --output-file requirements-oldest.txt
	@$(COMPILE) --group oldest-collections --no-deps --output-file requirements-oldest-collections.txt
	@$(COMPILE) --group core-2-19 --output-file requirements-core-2-19.txt
	@$(COMPILE) --group core-2-20 --output-file requirements-core-2-20.txt

clean:  ## remove what make made
	rm -rf .venv build
