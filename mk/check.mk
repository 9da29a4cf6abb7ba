# The tests, the checks of the source, and the benchmarks. Each part of `make check` is a target of
# its own that ends with a line "part: N passed, N failed[, N skipped]".

FUZZ_SECONDS ?= 20
PYTEST_ARGS ?=
# What all need is built first; then the tests on probes run beside the rest.
CHECK_LANES ?= "all headers portable programs" \
	"e2e e2e-portable" \
	"receivers kernels" \
	"format-check scripts unit aarch64 asan cppcheck tidy fuzz"

.PHONY: check
check: ## install what is missing, build, run every test and check
	@tools/install-deps.sh build demo test portable
	@MAKE="$(MAKE) $(JOBS)" tests/check.sh $(BUILD) $(CHECK_LANES)

# ---- unit tests: every tests/unit/test_*.c is a cmocka program ----

UNIT = $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))
UNIT_NAME ?= unit

$(BUILD)/tests/%: tests/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(SAY) TEST $@
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LIB) $(LIBS) -lcmocka

-include $(UNIT:=.d)

.PHONY: unit unit-programs asan headers
unit-programs: $(UNIT)

# A test that does not compile lets the others run.
unit: all ## unit tests
	@code=0; $(MAKE) -k --no-print-directory unit-programs || code=1; \
		tests/run-unit.sh $(UNIT_NAME) $(UNIT) || code=1; exit $$code

SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
asan: ## unit tests under the address and undefined behaviour sanitizers
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/asan UNIT_NAME=asan CFLAGS='-O1 -g $(SANITIZE)' unit

headers: ## the CUDA headers and runtime libraries of three majors, for the table and the tests
	tools/fetch-headers.sh

# ---- fuzzing: every tests/fuzz/fuzz_NAME.c, over tests/fuzz/corpus/NAME ----

FUZZ = $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

$(BUILD)/fuzz/%: tests/fuzz/%.c $(LIB)
	@mkdir -p $(@D)
	$(SAY) FUZZ $@
	$(Q)$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer -MMD -MP -MF $@.d -o $@ $< $(LIB) $(LIBS)

-include $(FUZZ:=.d)

.PHONY: fuzz fuzz-run
fuzz: ## fuzz targets, FUZZ_SECONDS each (20)
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzzing CC=$(CLANG) \
		CFLAGS='-O1 -g $(SANITIZE) -fsanitize=fuzzer-no-link' fuzz-run

fuzz-run: $(FUZZ)
	@tests/run-fuzz.sh $(FUZZ_SECONDS) $(FUZZ)

# ---- end to end: pytest in a virtual environment of its own ----

VENV = $(BUILD)/venv
PYTEST = tests/run-pytest.sh $(VENV)/bin/python

$(VENV)/.made: tests/requirements.txt
	@rm -rf $(VENV)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	@touch $@

# Feeds sinks without probes.
$(BUILD)/e2e/feed: tests/programs/feed.c $(LIB)
	@mkdir -p $(@D)
	$(SAY) TEST $@
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LIB) $(LIBS)

-include $(BUILD)/e2e/feed.d
test-programs: $(BUILD)/e2e/feed

.PHONY: programs e2e receivers e2e-portable
programs: all test-programs demo-program unit-programs $(VENV)/.made # all that the tests run

# Without probes, or on programs of their own: the receivers, tables and pages.
RECEIVERS = $(wildcard tests/test_*.py) $(patsubst %,tests/e2e/test_%.py,kafka syslog spool formats fake tailing)
E2E = $(filter-out $(RECEIVERS),$(wildcard tests/e2e/test_*.py))
e2e: programs ## end-to-end tests on real probes (as root)
	@BUILD=$(BUILD) $(PYTEST) e2e $(BUILD)/cudatap $(E2E) $(PYTEST_ARGS)

receivers: programs ## tests of the sinks with real receivers, of the table and of the pages
	@BUILD=$(BUILD) $(PYTEST) receivers $(BUILD)/cudatap $(RECEIVERS) $(PYTEST_ARGS)

e2e-portable: portable programs ## the end-to-end tests on the portable executable
	@BUILD=$(BUILD) $(PYTEST) e2e-portable $(BUILD)/portable/cudatap $(E2E) $(PYTEST_ARGS)

# ---- other kernels ----

# The portable executable is the one that is carried to them. Emulated, each takes a minute to begin with; more is for
# those who ask for it:
# make kernels KERNELS="bookworm trixie sid" KERNEL_TESTS="tests/e2e/test_capture.py ..."
KERNELS ?= bookworm trixie
KERNEL_TESTS ?= tests/e2e/test_demo.py::test_each_line

.PHONY: kernels
kernels: portable programs ## the portable executable on Debian's kernels under QEMU: KERNELS="SUITE...", KERNEL_TESTS="TEST..."
	@tools/install-deps.sh kernels
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/kernels/requirements.txt
	@BUILD=$(BUILD) tests/kernels/run.sh $(VENV)/bin/vng $(VENV)/bin/python $(BUILD)/portable/cudatap "$(KERNELS)" $(KERNEL_TESTS)

# ---- the other architecture: everything compiles ----

# The cross compiler's own headers come first; of the host's only the libraries' are then found.
.PHONY: aarch64
aarch64: ## compile the BPF program and all C sources for aarch64
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/aarch64 CC=aarch64-linux-gnu-gcc BPF_ARCH=arm64 \
		BPF_INCLUDE=/usr/aarch64-linux-gnu/include \
		CFLAGS='-O2 -g -idirafter /usr/include -idirafter $(BPF_INCLUDE)' objects

.PHONY: objects
objects: $(BPF_OBJECT) $(OBJECTS)

# ---- the sources themselves ----

GENERATED := streamer/table/rows.c streamer/table/types.c
LINTED = $(filter-out $(GENERATED),$(SRCS))

.PHONY: lint format-check tidy cppcheck scripts
lint: format-check tidy cppcheck scripts ## clang-format, clang-tidy, cppcheck, shell syntax

# Other versions format and find otherwise: with them these checks are skipped, LINT_ANY=1 runs them.
# $(call linter,PART,COMMAND,VERSION,CHECK)
linter = if [ -n "$(LINT_ANY)" ] || $(2) --version 2>/dev/null | grep -qw 'version $(3)\|^Cppcheck $(3)'; then $(4); \
	else echo "the tree is checked with $(2) $(3), here is: $$($(2) --version 2>&1 | head -1)"; \
		echo "$(1): 0 passed, 0 failed, 1 skipped"; fi

# Beside the distribution's usual version there may be that one.
CLANG_FORMAT := $(or $(shell command -v clang-format-14),clang-format)
CLANG_TIDY := $(or $(shell command -v clang-tidy-14),clang-tidy)

format-check:
	@$(call linter,$@,$(CLANG_FORMAT),14,$(CLANG_FORMAT) --dry-run -Werror $(FORMATTED))

$(BUILD)/tidy/%.ok: %.c .clang-tidy
	@mkdir -p $(@D)
	$(SAY) TIDY $<
	$(Q)$(CLANG_TIDY) --quiet $< -- $(ALL_CFLAGS) 2>$@.log || { cat $@.log >&2; exit 1; }
	@$(CC) $(ALL_CFLAGS) -MM -MP -MT $@ -MF $(@:.ok=.d) $<
	@touch $@

-include $(LINTED:%.c=$(BUILD)/tidy/%.d)

TIDY_DONE = $(LINTED:%.c=$(BUILD)/tidy/%.ok)
.PHONY: tidy-all
tidy-all: $(TIDY_DONE)

tidy:
	@$(call linter,$@,$(CLANG_TIDY),14,$(MAKE) --no-print-directory tidy-all)

CPPCHECK := cppcheck --quiet --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 \
	--suppressions-list=mk/cppcheck.txt -j 2 -D__x86_64__ -D_GNU_SOURCE -I. \
	'-DLIBBPF_OPTS(type,name,...)=struct type name = {__VA_ARGS__}' \
	'-Djson_object_foreach(object,key,value)=while (key = next_key(object), value = next_value(object))' \
	'-Djson_array_foreach(array,index,value)=while (index = next_index(array), value = next_value(array))'
cppcheck:
	@$(call linter,$@,cppcheck,2.10,$(CPPCHECK) $(LINTED))

scripts:
	@set -e; for script in tools/*.sh tests/*.sh tests/*/*.sh .ci/run; do sh=$$(head -1 $$script | grep -o 'bash\|sh$$'); \
		echo "$$sh -n $$script"; $$sh -n $$script; done

# ---- benchmarks: every tests/bench/bench_*.c ----

BENCH = $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/bench_*.c))

$(BUILD)/bench/%: tests/bench/%.c $(LIB)
	@mkdir -p $(@D)
	$(SAY) BENCH $@
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(LIB) $(LIBS)

-include $(BENCH:=.d)

# Programs that want arguments.
BENCH_ARGS_bench_call = $(BUILD)/fake/libcudart.so cudaMalloc $(BUILD)/bpf/rivals.bpf.o
BENCH_ARGS_bench_mapping = $(BUILD)/fake/libcudart.so
BENCH_ARGS_bench_start = $(BUILD)/fake/libcudart.so $(BUILD)/cudatap $(BUILD)/fake/demo

# Receivers that run around them.
# without the driver inside the runtime: the price of one call
BENCH_IN_bench_call = FAKE_CUDA_NESTED=0
BENCH_IN_bench_syslog = $(PYTHON) tests/receivers/rsyslog.py
BENCH_ARGS_bench_syslog = {}

.PHONY: bench
bench: all fake demo-program $(BUILD)/e2e/feed $(BUILD)/e2e/reload_calls $(BENCH) $(BUILD)/bpf/rivals.bpf.o ## the benchmarks' tables (as root)
	@set -e; $(foreach b,$(BENCH),echo "== $(notdir $b)"; $(BENCH_IN_$(notdir $b)) $b $(BENCH_ARGS_$(notdir $b));)
	@echo "== bench_check" && $(PYTHON) tests/bench/bench_check.py $(BUILD)/cudatap
	@echo "== bench_reload" && $(PYTHON) tests/bench/bench_reload.py $(BUILD)/cudatap $(BUILD)/fake $(BUILD)/e2e/reload_calls
	@echo "== beside_rsyslog" && $(PYTHON) tests/bench/beside_rsyslog.py $(BUILD)/e2e/feed
