// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of a device's memory, and how they are taken away. The device is that of tools/testing/modules/fake_mmap.c.
 *
 *   uverbs_mmap NODE
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "told.h"

#define PAGE 4096UL
#define PAGES 4UL
#define MAGIC 0x46424d4d

static void verdict(const char *name, bool good, int line)
{
	if (good)
		printf("pass|%s\n", name);
	else
		printf("fail|%s|line %d, errno %d\n", name, line, errno);
	fflush(stdout);
}
#define TELL(name, good) do { bool _good; errno = 0; _good = (good); verdict(name, _good, __LINE__); } while (0)

static int get_context(int fd)
{
	struct {
		struct ib_uverbs_cmd_hdr header;
		struct ib_uverbs_get_context get;
	} command = {
		.header = { IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(command) / 4, sizeof(struct ib_uverbs_get_context_resp) / 4 },
	};
	struct ib_uverbs_get_context_resp answer = { 0 };

	command.get.response = (uintptr_t)&answer;
	return write(fd, &command, sizeof(command)) == sizeof(command) ? (int)answer.async_fd : -1;
}

static volatile uint32_t *map(int fd, unsigned long pages, unsigned long offset, int prot, int flags)
{
	return mmap(NULL, pages * PAGE, prot, flags, fd, offset * PAGE);
}

static bool refused(int error, volatile uint32_t *mapping)
{
	return mapping == MAP_FAILED && errno == error;
}

/* What is mapped: the device's memory from a page on, or zeros. */
static bool shows(volatile uint32_t *mapping, unsigned long pages, unsigned long first)
{
	for (unsigned long nth = 0; nth < pages; nth++)
		if (mapping[nth * PAGE / 4] != MAGIC || mapping[nth * PAGE / 4 + 1] != first + nth)
			return false;
	return true;
}

static bool is_zero(volatile uint32_t *mapping, unsigned long pages)
{
	for (unsigned long nth = 0; nth < pages * PAGE / 4; nth++)
		if (mapping[nth])
			return false;
	return true;
}

static void parameter(const char *name)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/fake_mmap/parameters/%s", name);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "1", 1) != 1)
		printf("fail|%s|errno %d\n", name, errno);
	close(fd);
}

static int entries(void)
{
	FILE *file = fopen("/sys/module/fake_mmap/parameters/entries", "r");
	int count = -1;

	if (file && fscanf(file, "%d", &count) != 1)
		count = -1;
	if (file)
		fclose(file);
	return count;
}

/* A child that says, at each byte that it gets, whether its mapping shows the memory (M), zeros (0) or something else. */
struct child {
	pid_t pid;
	int ask, answer;
};

static struct child child_of(volatile uint32_t *mapping, unsigned long pages)
{
	int ask[2], answer[2];
	struct child child;

	if (pipe(ask) || pipe(answer))
		exit(1);
	child = (struct child){ fork(), ask[1], answer[0] };
	if (!child.pid) {
		char word;

		close(ask[1]);
		close(answer[0]);
		while (read(ask[0], &word, 1) == 1 && word == '?') {
			word = shows(mapping, pages, 0) ? 'M' : is_zero(mapping, pages) ? '0' : '?';
			if (write(answer[1], &word, 1) != 1)
				break;
		}
		_exit(0);
	}
	close(ask[0]);
	close(answer[1]);
	return child;
}

static char asks(struct child *child)
{
	char word = 'x';

	if (write(child->ask, "?", 1) != 1 || read(child->answer, &word, 1) != 1)
		return 'x';
	return word;
}

static int ends(struct child *child)
{
	int status = -1;

	if (write(child->ask, ".", 1) != 1)
		printf("a child has ended before\n");
	close(child->ask);
	close(child->answer);
	waitpid(child->pid, &status, 0);
	return status;
}

static void mappings(int fd)
{
	const int both = PROT_READ | PROT_WRITE;
	volatile uint32_t *all, *entry;

	TELL("no mapping without a context", refused(EINVAL, map(fd, 1, 0, both, MAP_SHARED)));
	get_context(fd);
	TELL("none that is private", refused(EINVAL, map(fd, 1, 0, both, MAP_PRIVATE)));
	TELL("none of too much", refused(EINVAL, map(fd, PAGES + 1, 0, both, MAP_SHARED)));
	TELL("none of an entry by its middle", refused(EINVAL, map(fd, PAGES - 1, PAGES + 1, both, MAP_SHARED)));
	TELL("none of a part of an entry", refused(EINVAL, map(fd, 1, PAGES, both, MAP_SHARED)));
	all = map(fd, PAGES, 0, both, MAP_SHARED);
	TELL("the device's memory", all != MAP_FAILED && shows(all, PAGES, 0));
	entry = map(fd, PAGES, PAGES, both, MAP_SHARED);
	TELL("an entry's", entry != MAP_FAILED && shows(entry, PAGES, 0));
	TELL("unmapped in the middle", !munmap((char *)all + PAGE, PAGE) && shows(all, 1, 0) && shows(all + 2 * PAGE / 4, 2, 2));
	TELL("unmapped", !munmap((void *)all, PAGE) && !munmap((char *)all + 2 * PAGE, 2 * PAGE) && !munmap((void *)entry, PAGES * PAGE));
	TELL("an entry for each context", entries() == 1);
}

static void zapped(int fd, const char *node)
{
	const int both = PROT_READ | PROT_WRITE;
	int reader = open(node, O_RDONLY), other = open(node, O_RDWR);
	volatile uint32_t *all = map(fd, PAGES, 0, both, MAP_SHARED), *entry = map(fd, PAGES, PAGES, both, MAP_SHARED);
	volatile uint32_t *others, *again;
	struct child child = child_of(all, PAGES), second = child_of(entry, PAGES);
	char first_word = asks(&child);

	get_context(other);
	others = map(other, 2, 0, PROT_READ, MAP_SHARED);
	TELL("a child has its parent's mappings", first_word == 'M' && asks(&second) == 'M');
	TELL("read only", others != MAP_FAILED && shows(others, 2, 0));
	parameter("zap");
	TELL("they are taken away: zeros", is_zero(all, PAGES) && is_zero(entry, PAGES));
	TELL("in children too", asks(&child) == '0' && asks(&second) == '0');
	TELL("of all files", is_zero(others, 2));
	all[7] = 77;
	TELL("what is written goes nowhere, and harms nobody", all[7] == 77 && is_zero(others, 2));
	all[7] = 0;
	again = map(fd, PAGES, 0, both, MAP_SHARED);
	TELL("it can be mapped again", again != MAP_FAILED && shows(again, PAGES, 0));
	TELL("children end", ends(&child) == 0 && ends(&second) == 0);
	munmap((void *)entry, PAGES * PAGE);
	munmap((void *)again, PAGES * PAGE);
	TELL("a mapping that was taken away is unmapped in the middle", !munmap((char *)all + PAGE, PAGE) && is_zero(all, 1));
	munmap((void *)all, PAGES * PAGE);
	munmap((void *)others, 2 * PAGE);
	close(reader);
	close(other);
}

static void unplugged(int fd)
{
	const int both = PROT_READ | PROT_WRITE;
	volatile uint32_t *all = map(fd, PAGES, 0, both, MAP_SHARED), *entry = map(fd, PAGES, PAGES, both, MAP_SHARED);
	struct child before = child_of(entry, PAGES), after;
	int status;

	TELL("mapped", shows(all, PAGES, 0) && shows(entry, PAGES, 0) && asks(&before) == 'M');
	parameter("unplug");
	after = child_of(all, PAGES);
	TELL("the device goes: a child of now finds nothing", asks(&after) == 'x');
	status = ends(&after);
	TELL("for it has no memory there", WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
	TELL("its parent finds zeros", is_zero(all, PAGES) && is_zero(entry, PAGES));
	TELL("a child of before too", asks(&before) == '0');
	after = child_of(all, PAGES);
	TELL("and one that gets its parent's zeros", asks(&after) == '0' && ends(&after) == 0);
	TELL("its entries are given up", entries() == 0);
	TELL("no new mapping", refused(EIO, map(fd, 1, 0, both, MAP_SHARED)));
	TELL("the other child ends", ends(&before) == 0);
	TELL("the file closes with its mappings there", !close(fd) && is_zero(all, PAGES) && is_zero(entry, PAGES));
}

int main(int argc, char **argv)
{
	int fd = argc > 1 ? open(argv[1], O_RDWR) : -1;

	if (fd < 0) {
		printf("fail|open the node|errno %d\n", errno);
		return 1;
	}
	signal(SIGPIPE, SIG_IGN);
	mappings(fd);
	zapped(fd, argv[1]);
	unplugged(fd);
	return all_done();
}
