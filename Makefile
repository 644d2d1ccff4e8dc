# SPDX-License-Identifier: GPL-2.0
# What a person types: `make help` tells. What a module is made of stands in Kbuild.
#
# Without KDIR everything is built in the build root against the kernel that tools/provision prepared. On a machine
# that runs a Rust-enabled kernel with a prepared tree of its own, `make KDIR=/path/to/it` builds right there.

SHELL := /bin/bash
MAKEFLAGS += --no-print-directory
JOBS ?= $(shell nproc)

# KERNEL is one of our own configuration, or a release of Debian's (tools/provision --releases): that one stands for the stock one then.
release := $(if $(findstring +,$(KERNEL)),$(KERNEL),$(if $(KERNEL),,$(FERROBAND_RELEASE)))
ifneq ($(release),)
export FERROBAND_RELEASE := $(release)
override KERNEL := stock
endif

# Tests on the kernel that somebody names, else what CI runs.
one_kernel := $(or $(KERNEL),$(FERROBAND_KERNEL))
KERNEL ?= $(or $(FERROBAND_KERNEL),stock)
export FERROBAND_KERNEL := $(KERNEL)

ifeq ($(origin KDIR),undefined)
environment := environment
in_root := tools/in-root
# As shell code: the paths are known (though not there yet) before anything is provisioned.
paths = eval "$$(tools/provision --paths)" &&
else
paths = KDIR='$(KDIR)' KERNEL_RELEASE=$$(cat '$(KDIR)/include/config/kernel.release') &&
endif

# For another kernel than the usual one the sources are copied, so that objects never mix.
ifeq ($(KERNEL)$(release),stock)
source := $(CURDIR)
else
source := $(CURDIR)/out/$(or $(release),$(KERNEL))
copy := copy
endif
out := $(if $(MO),$(abspath $(MO)),$(source))
kbuild = $(paths) IN_ROOT_BIND='$(if $(MO),$(out)=$(out))' $(in_root) make -C "$$KDIR" M='$(source)' $(if $(MO),MO='$(out)') $$KERNEL_VARIABLES $(if $(V),V='$(V)')
rust_files = $$(git ls-files -co --exclude-standard -- '*.rs')
# MIX may be given and empty: then it says "stock modules only".
mix = $(if $(filter undefined,$(origin MIX)),,--mix '$(MIX)')
check = tools/testing/run $(mix) $(if $(one_kernel),--kernel $(one_kernel)) $(if $(KERNELS),--kernels $(KERNELS)) $(if $(MO),--modules '$(out)') $(if $(RELEASES),--releases) $(if $(RECORD_FAULTS),--record-faults) $(if $(RECORD_CHECKS),--record-checks)

all: modules

help:
	@echo 'Build (needs: root on an amd64 Debian 12 or 13 with apt; the rest is installed into a cache)'
	@echo '  make                  the modules (*.ko); MO=<dir> builds in another directory, CLIPPY=1 lints, V=1 is verbose'
	@echo '  make modules_install  installs them under /lib/modules/<release>/updates (INSTALL_MOD_PATH=<root>): those on which'
	@echo '                        every stock module loads, or MODULES="ib_core rdma_rxe"'
	@echo '  make deb              Debian packages of these modules, in out/deb: ferroband-modules-<release>, and ferroband-dkms,'
	@echo '                        which builds them on the machine of its user'
	@echo '  make abi              how many of the exports of the stock modules ours have, and who misses the others'
	@echo '  make clean            removes what the build made'
	@echo 'Try'
	@echo '  make demo             two hosts in a virtual machine talk RDMA through our modules, all of them'
	@echo '  make shell            a virtual machine with our modules loaded, and a prompt'
	@echo 'Test'
	@echo '  make check            the tests that CI runs; T=<pattern> only those whose name matches'
	@echo '                        KERNELS="stock debug uml": and a choice of them on the debug kernel; KERNELS=stock: quicker'
	@echo '                        RELEASES=yes: and the smoke choice on other kernels of Debian, as CI does'
	@echo '  make check-long       everything: all mixes on all kernels, storms of 1,000 rounds, some minutes of soak (hours)'
	@echo '  make check-dkms       the package ferroband-dkms on a clean Debian: built there, upgraded, booted, tested, purged (some twenty minutes)'
	@echo '  make soak HOURS=1     mixed traffic, loss, flaps, kills, devices and clients that come and go; counters every minute'
	@echo '  make list             the tests, and the rows of the feature list that each proves'
	@echo '  make rows             how many rows the tests on this commit proved; MISSING=core lists those of a priority that are missing'
	@echo '  make prove-rows N=10  breaks so many rows (or all), drawn by a seed (SEED=), or ROWS="2.026 3.104", in a copy: their tests must fail'
	@echo '  MIX="rdma_rxe" for demo, shell and check: which of our modules are loaded, the rest are stock;'
	@echo '                        default: all; MIX= : stock only'
	@echo '  FERROBAND_TESTS=m     for make: the test modules too (make check does so)'
	@echo '  make bench            our modules against the stock ones, in turn: a table of medians, and out/bench/bench.txt, .json and .svg;'
	@echo '                        some 15 minutes; RUN=verbs only a part (Documentation/performance.md; tools/bench --help)'
	@echo '  KERNEL=7.3.4+deb13-amd64  for all of these: another kernel of Debian; make kernels lists them'
	@echo '  KERNEL=debug, uml, kcsan, kasan  for all of these: not on the stock kernel, but on one that looks at locks, contexts and leaks,'
	@echo '                        on User Mode Linux with KASAN, on one that looks at data races, or at memory; make kernel KERNEL=... only builds it (once, 6 to 15 minutes)'
	@echo '  make mutants          changes the protocol (hw/rxe/roce) in one place after the other, in a copy: which changes does no test see?'
	@echo '                        Hours; a part of it: MUTANTS="--file requester.rs" or "--shard 0/8" (options of cargo-mutants)'
	@echo 'Develop'
	@echo '  make clippy           the lints of all crates (FERROBAND_TESTS=m: of the test modules too), beside the objects of make'
	@echo '  make rustfmt, rustfmtcheck, rustdoc, rust-analyzer'
	@echo '  make environment      only provisions (roots, kernel tree, QEMU); make prune removes outdated parts of the cache'
	@echo '  KDIR=<dir>            builds on this machine against that prepared kernel tree, without the build root'

environment kernel:
	@tools/provision

prune:
	@tools/provision --prune

copy:
	@mkdir -p '$(source)'
	@PYTHONPATH=tools python3 -m ferroband.sources '$(source)'

# A kernel of Debian that is not tested is compared with those that are, and refused where it differs; PORTING=yes builds all the same.
ifeq ($(KERNEL)$(PORTING),stock)
known = $(paths) grep -q "^$$KERNEL_RELEASE	.*	tested	" packaging/kernels || $(in_root) packaging/kernel-check "$$KDIR"
endif

modules: $(environment) $(copy)
	@$(known)
	@$(kbuild) -j$(JOBS) $(if $(CLIPPY),CLIPPY=1) $(if $(FERROBAND_TESTS),FERROBAND_TESTS=m) modules
	@sed 's|.*/||; s|\.o$$|.ko|; s|^|made: $(out)/|' '$(out)/modules.order'

# Of the modules' crates, without objects of its own.
clippy: modules
	@$(kbuild) -j$(JOBS) $(if $(FERROBAND_TESTS),FERROBAND_TESTS=m) RDMA_LINT=1 modules

# Not by default: a module that lacks an export, for a stock module that needs it would not load any more.
# Staged first: the build root does not see this machine's /lib/modules.
modules_install: modules
	@$(paths) set -e; export KDIR; modules='$(MODULES)'; \
	[ -n "$$modules" ] || modules=$$(tools/abi --modules '$(out)' --complete); \
	stage=$$(mktemp -d /tmp/ferroband.XXXXXX); trap 'rm -rf "$$stage"' EXIT; \
	$(kbuild) modules_install INSTALL_MOD_PATH="$$stage" INSTALL_MOD_STRIP=1 CONFIG_MODULE_SIG_ALL= DEPMOD=true; \
	target='$(INSTALL_MOD_PATH)'/lib/modules/$$KERNEL_RELEASE; \
	mkdir -p "$$target/updates"; \
	for module in $$modules; do \
		file=$$(find "$$stage" -name "$$module.ko*"); \
		[ -n "$$file" ] || { echo "there is no module $$module" >&2; exit 1; }; \
		install -m 644 -t "$$target/updates" "$$file"; \
	done; \
	depmod $(if $(INSTALL_MOD_PATH),-b '$(INSTALL_MOD_PATH)') "$$KERNEL_RELEASE"; \
	echo "installed in $$target/updates: $$(cd "$$target/updates" && echo *.ko*)"

# Debian's kernels, and how far the modules are on each.
kernels:
	@tools/kernels-table

# Debian packages, of the modules that modules_install takes by default.
deb: modules
	@tools/deb --modules '$(out)'

clean:
	@$(paths) test ! -d "$$KDIR" || $(kbuild) clean
	@rm -rf out hw/rxe/roce/target ibcm/protocol/target rdmacm/cm_rules/target

rustfmt rustfmtcheck: $(environment)
	@$(in_root) rustfmt --edition 2021 --config newline_style=Unix --color never $(if $(filter %check,$@),--check) $(rust_files)

rustdoc: modules
	@$(kbuild) RDMA_RUSTDOC=1 modules
	@echo 'made: $(out)/rust/doc/rdma/index.html'

rust-analyzer: modules
	@$(kbuild) rust-analyzer
	@$(paths) tools/rust-analyzer.py '$(out)' "$$BUILD_ROOT"
	@echo 'made: $(out)/rust-project.json'

demo: modules
	@tools/vm demo $(mix) $(if $(MO),--modules '$(out)')

shell: modules
	@tools/vm shell $(mix) $(if $(MO),--modules '$(out)')

abi: modules
	@$(paths) KDIR="$$KDIR" tools/abi --modules '$(out)'

# Our modules against the stock ones; tools/bench has options.
bench: modules
	@tools/bench --modules '$(out)' $(if $(RUN),--run '$(RUN)') $(if $(ROUNDS),--rounds '$(ROUNDS)')

check: environment
	@$(check) $(if $(T),--only '$(T)')

check-long: environment
	@$(check) --long $(if $(T),--only '$(T)')

HOURS ?= 1
soak: environment
	@tools/testing/run --long --show --kernel '$(KERNEL)' --only '^guest/soak@ours' --env 'HOURS=$(HOURS)' \
		--seconds $$(python3 -c 'import sys; print(600 + int(float(sys.argv[1]) * 3600))' '$(HOURS)')

check-dkms: modules
	@tools/deb --modules '$(out)'
	@tools/testing/dkms

mutants: environment
	@tools/testing/mutants $(MUTANTS)

list:
	@$(check) --list $(if $(LONG),--long) $(if $(T),--only '$(T)')

N ?= 10
prove-rows: environment
	@tools/testing/prove-rows --count $(N) $(if $(SEED),--seed $(SEED)) $(if $(ROWS),--rows $(ROWS))

rows:
	@$(check) --rows $(if $(MISSING),--missing $(MISSING))

.PHONY: all help environment kernel prune modules clippy modules_install clean rustfmt rustfmtcheck rustdoc rust-analyzer \
	abi bench copy deb kernels demo shell check check-long check-dkms soak mutants list rows prove-rows
