# Installing, in the usual way: PREFIX, DESTDIR. PROGRAM=build/portable/cudatap installs that one.

PREFIX ?= /usr/local
DESTDIR ?=
BINDIR ?= $(PREFIX)/bin
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/cudatap
PROGRAM ?= $(BUILD)/cudatap
INSTALLED = $(DESTDIR)$(BINDIR)/cudatap

# What tracing takes without root: probes; other processes' memory maps and the files in them.
CAPABILITIES := cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_checkpoint_restore
# More open files, for the probes of old kernels; a container that lacks it could not start the program.
CAPABILITIES_OPTIONAL := cap_sys_resource

.PHONY: install install-caps uninstall
install: $(PROGRAM) ## install to PREFIX (/usr/local), below DESTDIR; SETCAP=1: and install-caps
	install -d $(DESTDIR)$(BINDIR)
	install -m 755 $(PROGRAM) $(INSTALLED)
ifneq ($(wildcard docs/cudatap.1),)
	install -d $(DESTDIR)$(MANDIR)/man1
	install -m 644 docs/cudatap.1 $(DESTDIR)$(MANDIR)/man1/cudatap.1
endif
	@for file in $$(cd examples 2>/dev/null && find . -type f | sed 's,^\./,,'); do \
		mode=644; [ ! -x "examples/$$file" ] || mode=755; \
		install -D -m $$mode "examples/$$file" "$(DESTDIR)$(DOCDIR)/examples/$$file"; done
ifeq ($(SETCAP),1)
	@$(MAKE) --no-print-directory install-caps
else
	@$(if $(DESTDIR),:,echo) "To trace without root or sudo, once: make install-caps$(if $(filter-out /usr/local,$(PREFIX)), PREFIX=$(PREFIX)) [GROUP=NAME]"
endif

# Whoever may run the file sees the CUDA calls of every process: GROUP=NAME keeps it to a group.
install-caps: ## give the installed file the capabilities to trace without root; GROUP=NAME: to that group only
ifneq ($(GROUP),)
	chgrp $(GROUP) $(INSTALLED)
	chmod 750 $(INSTALLED)
endif
	PATH=$$PATH:/usr/sbin:/sbin; setcap $(CAPABILITIES),$(CAPABILITIES_OPTIONAL)+ep $(INSTALLED) && \
		$(INSTALLED) --version >/dev/null 2>&1 || setcap $(CAPABILITIES)+ep $(INSTALLED)

uninstall: ## remove what `make install` put there
	rm -f $(INSTALLED) $(DESTDIR)$(MANDIR)/man1/cudatap.1
	rm -rf $(DESTDIR)$(DOCDIR)
