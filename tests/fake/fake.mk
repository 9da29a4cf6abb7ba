# Fake CUDA libraries, the demo on top of them, and the programs that the end-to-end tests trace.
# Part of the Makefile; works alone too: make -f tests/fake/fake.mk fake
BUILD ?= build
CC ?= cc
FAKE := $(BUILD)/fake
FAKE_OBJ := $(FAKE)/obj
FAKE_CFLAGS := -std=gnu17 -O2 -g $(CC_WARNINGS) -D_GNU_SOURCE -I. -fPIC \
	-fvisibility=hidden -fcf-protection=none
FAKE_TABLE := $(patsubst %,$(FAKE_OBJ)/%.o,table rows types names glob)
FAKE_COMMON := $(patsubst %,$(FAKE_OBJ)/%.o,dispatch plan outs special nest control thunk) $(FAKE_TABLE)
FAKE_LIBS := $(patsubst %,$(FAKE)/%,libcudart.so.11.0 libcudart.so.12 libcudart.so.13 libcuda.so.1)
# Where there is a GPU, LD_LIBRARY_PATH may lead to the real libraries: the demo and the fakes find each other first.
# The tests' programs do not, for tests lead them to other libraries; their runners clear the path.
FAKES_FIRST := -Wl,--disable-new-dtags
TEST_PROGRAMS := $(patsubst tests/programs/%.c,$(BUILD)/e2e/%,$(filter-out \
	$(wildcard tests/programs/launch_*.c tests/programs/*_library.c) tests/programs/feed.c,$(wildcard tests/programs/*.c)))
TEST_LIBRARIES := $(patsubst tests/programs/%.c,$(BUILD)/e2e/%.so,$(wildcard tests/programs/*_library.c))


fake: $(FAKE_LIBS) $(FAKE)/libcudart.so $(FAKE)/libcuda.so $(FAKE)/libcudart_static.a
demo-program: $(FAKE)/demo
test-programs: fake $(TEST_PROGRAMS) $(TEST_LIBRARIES)
.PHONY: fake demo-program test-programs
e2e e2e-portable: test-programs

$(FAKE_OBJ)/%.o: tests/fake/%.c
	@mkdir -p $(@D)
	$(CC) $(FAKE_CFLAGS) -MMD -MP -c -o $@ $<
$(FAKE_OBJ)/%.o: tests/fake/%.S
	@mkdir -p $(@D)
	$(CC) -c -o $@ $<
$(FAKE_OBJ)/%.o: streamer/table/%.c
	@mkdir -p $(@D)
	$(CC) $(FAKE_CFLAGS) -MMD -MP -c -o $@ $<

$(FAKE_OBJ)/fake-gen: $(FAKE_OBJ)/gen.o $(FAKE_TABLE)
	$(CC) -o $@ $^

# $(call fake_library,SONAME,KIND,MAJOR,EXPORTS)
define fake_library
$(FAKE_OBJ)/$(1).S: $(FAKE_OBJ)/fake-gen tests/data/exports/$(4)
	$$< stubs $(2) $(3) $(1) <tests/data/exports/$(4) >$$@
$(FAKE_OBJ)/$(1).c: $(FAKE_OBJ)/fake-gen tests/data/exports/$(4)
	$$< names $(2) $(3) $(1) <tests/data/exports/$(4) >$$@
$(FAKE_OBJ)/$(1).map: $(FAKE_OBJ)/fake-gen tests/data/exports/$(4)
	$$< version $(2) $(3) $(1) <tests/data/exports/$(4) >$$@
$(FAKE_OBJ)/$(1).stubs.o: $(FAKE_OBJ)/$(1).S
	$$(CC) -c -o $$@ $$<
$(FAKE_OBJ)/$(1).names.o: $(FAKE_OBJ)/$(1).c tests/fake/fake.h
	$$(CC) $$(FAKE_CFLAGS) -MMD -MP -c -o $$@ $$<
$(FAKE)/$(1): $(FAKE_OBJ)/$(1).stubs.o $(FAKE_OBJ)/$(1).names.o $(FAKE_COMMON) $(FAKE_OBJ)/$(1).map
	$$(CC) -shared -o $$@ $$(filter %.o,$$^) -Wl,-soname,$(1) -Wl,--version-script=$(FAKE_OBJ)/$(1).map \
		-Wl,-rpath,'$$$$ORIGIN' $(FAKES_FIRST) -Wl,-z,now -ldl
endef
$(eval $(call fake_library,libcudart.so.11.0,cudart,11,libcudart-11.8.txt))
$(eval $(call fake_library,libcudart.so.12,cudart,12,libcudart-12.9.txt))
$(eval $(call fake_library,libcudart.so.13,cudart,13,libcudart-13.5.txt))
$(eval $(call fake_library,libcuda.so.1,cuda,13,libcuda-580.txt))

$(FAKE)/libcudart.so: $(FAKE)/libcudart.so.13
	ln -sf $(<F) $@
$(FAKE)/libcuda.so: $(FAKE)/libcuda.so.1
	ln -sf $(<F) $@
$(FAKE)/libcudart_static.a: $(FAKE_OBJ)/libcudart.so.13.stubs.o $(FAKE_OBJ)/libcudart.so.13.names.o $(FAKE_COMMON)
	@rm -f $@
	$(AR) rcs $@ $^

TEST_CFLAGS := -std=gnu17 -O1 -g $(CC_WARNINGS) -D_GNU_SOURCE -I.
TEST_LDFLAGS := -L$(FAKE) -Wl,-rpath,'$$ORIGIN/../fake' -Wl,--enable-new-dtags
$(FAKE)/demo: tests/fake/demo.c $(FAKE)/libcudart.so $(FAKE)/libcuda.so
	$(CC) $(TEST_CFLAGS) -o $@ $< -L$(FAKE) -Wl,-rpath,'$$ORIGIN' $(FAKES_FIRST) -lcudart
$(BUILD)/e2e/%: tests/programs/%.c tests/programs/cuda_api.h tests/fake/fake_cuda.h $(FAKE)/libcudart.so $(FAKE)/libcuda.so
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) -o $@ $< $(TEST_LDFLAGS) -Wl,--as-needed -lcudart -lcuda -ldl -lpthread
$(BUILD)/e2e/%.so: tests/programs/%.c tests/programs/cuda_api.h $(FAKE)/libcudart.so $(FAKE)/libcuda.so
	@mkdir -p $(@D)
	$(CC) $(TEST_CFLAGS) -shared -fPIC -o $@ $< $(TEST_LDFLAGS) -lcudart

-include $(wildcard $(FAKE_OBJ)/*.d)
