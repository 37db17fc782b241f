# The front door over the presets of CMakePresets.json. `make` lists what there is.
.DEFAULT_GOAL := help
.PHONY: help demo test build format format-check tidy check asan tsan fuzz bench bench-peers peers-check packages bundle install clean

PREFIX ?= /usr/local
FILES ?= $(shell git ls-files '*.cpp' '*.h')
CLANG_FORMAT ?= clang-format-14
PROGRAM := build/release/bin/epilogue

help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

demo: build ## install, build, profile the MLP in every mode, leave traces and a page in build/demo
	@tools/demo $(PROGRAM) build/demo

test: ## install, build and run every test
	@tools/deps build test
	@tools/build release
	@tools/ctest release

build: ## install what is missing and build the program: build/release/bin/epilogue
	@tools/deps build
	@tools/build release runtime

format: ## format the sources in place
	@tools/deps check
	@$(CLANG_FORMAT) -i $(FILES)

format-check: ## fail when a source is not formatted
	@tools/deps check
	@$(CLANG_FORMAT) --dry-run --Werror $(FILES)

tidy: ## clang-tidy over the sources, or FILES="..."
	@tools/deps build test check
	@tools/tidy $(FILES)

check: format-check ## format, layering of the folders, headers that compile alone
	@tools/check_layering
	@tools/check_headers

asan: ## build and test with AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/deps build test
	@tools/build asan
	@tools/ctest asan

tsan: ## build and test with ThreadSanitizer
	@tools/deps build test
	@tools/build tsan
	@tools/ctest tsan

fuzz: ## run every fuzz target for SECONDS (60)
	@tools/deps build check
	@tools/fuzz $(or $(SECONDS),60)

bench: ## time the MLP beside the machine's ceilings, then the parts: profiler, linear call, pointwise kernels, compile()
	@tools/deps build
	@tools/build release
	@$(PROGRAM) bench mlp
	@for part in profiler linear pointwise compile; do build/release/bin/$${part}_bench --benchmark_min_time=0.1; done

bench-peers: build ## measure the modes of GatedMlp beside PyTorch on the CPU: bench/results/cpu_vs_torch.json
	@tools/deps torch
	@python3 bench/peers/cpu_vs_torch.py --program $(PROGRAM)

peers-check: build ## HolisticTraceAnalysis reads the traces of `epilogue profile`
	@tools/deps hta
	@build/venv-hta/bin/python bench/peers/hta_check.py $(PROGRAM)

packages: ## build the kernel packages of packages/ and their index, to be served or added: build/release/packages/packed
	@tools/deps build
	@tools/build release packages
	@ls build/release/packages/packed/*.tar.gz build/release/packages/packed/index.json

bundle: ## bundle/: program, tests and libraries for a machine that has none of them
	@tools/deps build test
	@tools/build release
	@tools/bundle build/release bundle

install: build ## install library, headers and program below PREFIX (/usr/local)
	@cmake --install build/release --prefix $(PREFIX)

clean: ## remove what was built
	@rm -rf build bundle
