.PHONY: run setup test test-processes test-constants lint format bench fuzz constraints package clean help

SETUP := ./scripts/setup.sh
BIN := .venv/bin

help: ## Say what each command does
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

run: ## Set up, then open the program on a bundled recording (TRACE=file opens another)
	@$(SETUP)
	@./scripts/run_sample.sh $(TRACE)

setup: ## Only set up: system libraries, .venv, and the program in it
	@$(SETUP) && echo ".venv/bin/stallscope is ready"

test: ## Set up with the test tools, then run the tests (ARGS="-k name" is passed on to pytest)
	@$(SETUP) test
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

test-processes: ## Run the tests that make test leaves out: every documented command, on recordings of real size, ended, starved, disturbed
	@$(SETUP) test
	@QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist worksteal -m thorough $(ARGS)
	$(BIN)/python -m tests.processes.kills --count 50 --processes 2

test-constants: ## Change constants of rules and parsers, and list those that no test notices (ARGS="--count 40 --seed 1", else all)
	@$(SETUP) test
	$(BIN)/python -m tests.mutation $(ARGS)

lint: ## Set up with the developer tools, then check style, types and the direction of imports
	@$(SETUP) dev
	@status=0; \
	for check in "ruff check ." "ruff format --check ." "mypy" "lint-imports"; do \
		echo "$$check"; $(BIN)/$$check || status=1; \
	done; exit $$status

format: ## Rewrite the sources in the project's style
	@$(SETUP) dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: ## Measure loading, diagnosis and painting, as ratios
	@$(SETUP) test
	$(BIN)/python -m tests.benchmarks $(ARGS)

fuzz: ## Try damaged recordings (ARGS="FORMAT --minutes 5 --processes 2 --guided"); goes on where the last run ended
	@$(SETUP) fuzz || $(SETUP) test
	$(BIN)/python -m tests.fuzzing $(ARGS)

constraints: ## Choose the newest versions of all libraries, to be tested and committed (packaging/constraints.txt)
	@$(SETUP) dev
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-header \
		--extra test --extra dev --extra package --extra fuzz --output-file packaging/constraints.txt pyproject.toml

package: ## Build the desktop packages
	@$(SETUP) package
	./packaging/build.sh

clean: ## Remove everything that the other commands made
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis stallscope-sample.png
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
