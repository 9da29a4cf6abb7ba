# `make demo`: everything from nothing to JSON lines on stdout, and only those there.

# As many jobs as cores where nobody said how many: for the shell.
JOBS = $$(case " $$MAKEFLAGS" in *" -j"*) ;; *) echo "-j$$(nproc)" ;; esac)

.PHONY: demo demo-build
demo: ## install what is missing, build, run the demo program under cudatap: JSON on stdout
	@tools/install-deps.sh build demo >&2
	@$(MAKE) $(JOBS) --no-print-directory demo-build >&2
	@tools/demo.sh $(BUILD)/cudatap $(BUILD)/fake/demo

demo-build: all fake demo-program
