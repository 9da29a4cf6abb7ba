# Builds everything into build/. `make help` lists the targets.
BUILD ?= build
CC ?= cc
CLANG ?= clang
PKGS := libbpf libelf jansson rdkafka yaml-0.1
CFLAGS ?= -O2 -g
ALL_CFLAGS := -std=gnu17 -Wall -Wextra -Werror -Wno-unused-parameter -D_GNU_SOURCE -I. $(shell pkg-config --cflags $(PKGS)) $(CFLAGS)
LIBS := $(shell pkg-config --libs $(PKGS)) -lpthread

SRCS := $(wildcard streamer/*.c streamer/*/*.c config/*.c sinks/*.c)
MAIN := streamer/main.c
OBJS := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(MAIN),$(SRCS)))
LIB := $(BUILD)/libcudatap.a
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/test_*.c))

all: $(BUILD)/cudatap

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c -o $@ $<

$(LIB): $(OBJS)
	@rm -f $@
	$(AR) rcs $@ $^

$(BUILD)/cudatap: $(BUILD)/obj/streamer/main.o $(LIB)
	$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/tests/%: tests/unit/%.c $(LIB)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -o $@ $< $(LIB) $(LIBS) -lcmocka

unit: $(UNIT)
	@set -e; for t in $(UNIT); do $$t; done

clean:
	rm -rf $(BUILD)

.PHONY: all unit clean
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
