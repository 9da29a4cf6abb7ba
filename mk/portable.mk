# `make portable`: the same sources as one static executable. Where the distribution has no static
# library that links (librdkafka) or an old one (libbpf), tools/portable.sh builds a pinned one.

.PHONY: portable
portable: ## one static executable, build/portable/cudatap
	@tools/install-deps.sh build portable
	@static=$$(tools/portable.sh) && \
		$(MAKE) $(JOBS) --no-print-directory BUILD=$(BUILD)/portable STATIC=$$static portable-link

.PHONY: portable-link
portable-link: $(BUILD)/.stripped

# Once: others may be running it.
$(BUILD)/.stripped: $(BUILD)/cudatap $(BUILD)/check-static
	@strip --strip-debug $<
	@touch $@

# A program that uses what cudatap may not yet: TLS and compression by librdkafka.
$(BUILD)/check-static: mk/portable/check.c $(BUILD)/obj/mk/portable/names.o
	$(SAY) LINK $@
	$(Q)$(CC) $(ALL_CFLAGS) $(LINK) $(LDFLAGS) -o $@ $^ $(LIBS) $(LINK_LOG)
	@$@
