# Builds everything into build/. `make help` lists the targets; the parts are in mk/.
#
# The usual variables count: CC, CFLAGS, LDFLAGS, PREFIX, DESTDIR; further BUILD (where everything
# goes), CLANG (for BPF and fuzzing) and PYTHON.
BUILD ?= build
CLANG ?= clang
PYTHON ?= python3
PKG_CONFIG ?= pkg-config
CFLAGS ?= -O2 -g

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

# ---- what it is built from ----

SRCS := $(wildcard streamer/*.c streamer/*/*.c config/*.c sinks/*.c)
OBJECTS = $(patsubst %.c,$(BUILD)/obj/%.o,$(SRCS)) $(BUILD)/obj/streamer/capture/object.o
MAIN_OBJECT = $(BUILD)/obj/streamer/main.o
LIB = $(BUILD)/libcudatap.a
BPF_OBJECT = $(BUILD)/bpf/cudatap.bpf.o

PACKAGES := libbpf libelf jansson rdkafka yaml-0.1 openssl libzstd zlib
ifdef STATIC
# mk/portable.mk: what the distribution has no static library of lies under STATIC
LIBBPF_CFLAGS := -isystem $(STATIC)/include
PACKAGE_CFLAGS := $(LIBBPF_CFLAGS) -DCUDATAP_STATIC
# no paths of the machine that built it
MAPPED := -ffile-prefix-map=$(CURDIR)=. -ffile-prefix-map=$(STATIC)=portable
PACKAGE_LIBS := $(STATIC)/lib/libbpf.a $(STATIC)/lib/librdkafka.a \
	-lelf $(STATIC)/lib/libelf_search.a -ljansson -lyaml -lssl -lcrypto -lzstd -lz -ldl -lm
LINK := -static-pie
# What the linker warns of is looked after in mk/portable/names.c.
LINK_LOG = 2>$@.log || { cat $@.log >&2; false; }
PORTABLE_OBJECT = $(BUILD)/obj/mk/portable/names.o
else
PACKAGE_CFLAGS := $(shell $(PKG_CONFIG) --cflags $(PACKAGES) 2>/dev/null)
LIBBPF_CFLAGS := $(filter -I%,$(PACKAGE_CFLAGS))
PACKAGE_LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null)
MISSING := $(foreach p,$(PACKAGES),$(shell $(PKG_CONFIG) --exists $(p) 2>/dev/null || echo $(p)))
endif
MISSING += $(foreach t,$(firstword $(CC)) $(CLANG),$(shell command -v $(t) >/dev/null || echo $(t)))

# Warnings are errors with the compilers that the tree is kept clean with (gcc 12, clang 14); those of
# other compilers stop nobody's build. WERROR=1 and WERROR=0 decide. clang calls itself a gcc 4 too.
COMPILER = $(subst $() ,-,$(shell echo clang __clang_major__ gcc __GNUC__ | $(1) -E -P - 2>/dev/null))
KEPT_CLEAN := clang-__clang_major__-gcc-12 clang-14-gcc-4
WARNINGS = -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers \
	$(if $(filter 1,$(if $(WERROR),$(WERROR),$(words $(filter $(KEPT_CLEAN),$(COMPILER))))),-Werror)
CC_WARNINGS := $(call WARNINGS,$(CC))
ALL_CFLAGS = -std=gnu17 $(CC_WARNINGS) -D_GNU_SOURCE -I. $(PACKAGE_CFLAGS) $(MAPPED) $(CFLAGS)
LIBS = $(PACKAGE_LIBS) -lpthread -lstdc++

# The kernel's names for the architecture; the headers of its ABI lie in the multiarch directory.
BPF_ARCH ?= $(patsubst aarch64,arm64,$(patsubst x86_64,x86,$(shell uname -m)))
BPF_INCLUDE ?= /usr/include/$(shell uname -m)-linux-gnu
BPF_CFLAGS ?= -O2 -g
CLANG_WARNINGS := $(call WARNINGS,$(CLANG))
ALL_BPF_CFLAGS = -target bpf -mcpu=v3 -D__TARGET_ARCH_$(BPF_ARCH) $(CLANG_WARNINGS) -Wno-missing-declarations \
	$(LIBBPF_CFLAGS) -I$(BPF_INCLUDE) -Ibpf $(MAPPED) $(BPF_CFLAGS)

# ---- how ----

# A line per step; V=1 shows the commands.
ifeq ($(V),1)
SAY = @:
else
Q := @
SAY = @printf '  %-5s %s\n'
endif

all: $(BUILD)/cudatap ## build build/cudatap (the default)

# One message when something is missing, instead of a compiler's many.
.PHONY: ready
ready:
ifneq ($(strip $(MISSING)),)
	@echo "cudatap: not found: $(strip $(MISSING)). \`make deps\` installs what the build needs" \
		"(Debian 12 and 13, Ubuntu 24.04); elsewhere tools/install-deps.sh lists it." >&2; exit 1
endif

# Other flags than last time: build again.
FLAGS = $(CC) $(ALL_CFLAGS) $(LINK) $(LDFLAGS) $(LIBS) $(CLANG) $(ALL_BPF_CFLAGS)
.PHONY: force
$(BUILD)/.flags: force | ready
	@mkdir -p $(@D)
	@printf '%s\n' '$(FLAGS)' | cmp -s - $@ || printf '%s\n' '$(FLAGS)' >$@

$(BUILD)/bpf/%.bpf.o: bpf/%.bpf.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(SAY) BPF $@
	$(Q)$(CLANG) $(ALL_BPF_CFLAGS) -MMD -MP -c -o $@ $<

# A benchmark's programs: the rivals.
$(BUILD)/bpf/%.bpf.o: tests/bench/%.bpf.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(SAY) BPF $@
	$(Q)$(CLANG) $(ALL_BPF_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/%.o: %.c $(BUILD)/.flags
	@mkdir -p $(@D)
	$(SAY) CC $@
	$(Q)$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/streamer/capture/object.o: streamer/capture/object.S $(BPF_OBJECT)
	@mkdir -p $(@D)
	$(SAY) AS $@
	$(Q)$(CC) -Wa,-I$(BUILD)/bpf -c -o $@ $<

$(LIB): $(filter-out $(MAIN_OBJECT),$(OBJECTS))
	$(SAY) AR $@
	@rm -f $@
	$(Q)$(AR) rcs $@ $(filter %.o,$^)

$(BUILD)/cudatap: $(MAIN_OBJECT) $(PORTABLE_OBJECT) $(LIB)
	$(SAY) LINK $@
	$(Q)$(CC) $(CFLAGS) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS) $(LINK_LOG)

-include $(OBJECTS:.o=.d) $(wildcard $(BUILD)/bpf/*.d)

# The fake CUDA libraries and the demo program: targets `fake` and `demo-program`.
-include tests/fake/fake.mk

include mk/demo.mk mk/check.mk mk/portable.mk mk/install.mk

# ---- the household ----

.PHONY: all deps clean docs format table help

deps: ## install what building, testing and `make portable` need (apt)
	@tools/install-deps.sh build demo test portable

table: ## make the API table anew from the CUDA headers, which it fetches
	@tools/install-deps.sh build demo >&2
	tools/mktable.sh

docs: $(BUILD)/tests/test_config_reference ## write anew the pages and schemas that come from the key tables
	@CUDATAP_UPDATE_DOCS=1 $<

FORMATTED = $(filter-out streamer/table/rows.c streamer/table/types.c, \
	$(wildcard bpf/*.[ch] streamer/*.[ch] streamer/*/*.[ch] config/*.[ch] sinks/*.[ch] \
		tests/*.[ch] tests/*/*.[ch]))

format: ## run clang-format over the tree
	$(CLANG_FORMAT) -i $(FORMATTED)

clean: ## remove build/
	rm -rf $(BUILD)

help: ## this list
	@echo "make TARGET, with the targets:"
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
