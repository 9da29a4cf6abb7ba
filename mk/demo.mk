# `make demo`: everything from nothing to JSON lines on stdout, and only those there.

JOBS = $(if $(filter -j%,$(MAKEFLAGS)),,-j$(shell nproc 2>/dev/null || echo 1))

.PHONY: demo demo-build
demo: ## install what is missing, build, run the demo program under cudatap: JSON on stdout
	@tools/install-deps.sh build demo >&2
	@$(MAKE) $(JOBS) --no-print-directory demo-build >&2
	@tools/demo.sh $(BUILD)/cudatap $(BUILD)/fake/demo

demo-build: all fake demo-program
