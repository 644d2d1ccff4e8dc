// SPDX-License-Identifier: GPL-2.0
/*
 * Exercises a file, or a block device: random operations on it are done to a copy in memory, too, and what is read must be
 * what the copy says. In the end the whole is compared.
 *
 *	exercise file FILE SIZE OPERATIONS		read, write, truncate, map, punch a hole, sync, open again
 *	exercise disk DEVICE SIZE OPERATIONS		read and write past the page cache, 512 bytes to 1 MiB
 *	exercise disks DEVICE SIZE OPERATIONS		the same by four processes at once, each in its quarter
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "told.h"

#define SECTOR 512
#define PROCESSES 4

static const char *path;
static int fd;
static bool direct;
/* The part of it that this process has, and how much of that there is: a file ends there. */
static off_t start;
static size_t size, length;
static unsigned char *copy, *buffer;
static unsigned long step;

static size_t any(size_t below)
{
	return (((uint64_t)random() << 31) | random()) % below;
}

/* Sizes of all orders of magnitude are as likely. */
static size_t some_length(size_t limit)
{
	size_t order = (size_t)1 << any(21), got = 1 + any(order);

	if (direct)
		got = (got + SECTOR - 1) / SECTOR * SECTOR;
	return got < limit ? got : limit;
}

static size_t some_offset(size_t limit)
{
	size_t got = any(limit);

	return direct ? got / SECTOR * SECTOR : got;
}

static void same(const char *what, const unsigned char *got, size_t offset, size_t count)
{
	if (!memcmp(got, copy + offset, count))
		return;
	for (size_t i = 0; i < count; i++)
		if (got[i] != copy[offset + i])
			errx(1, "step %lu, %s %zu bytes at %zu: byte %zu is %#x, not %#x", step, what, count, offset, offset + i,
			     got[i], copy[offset + i]);
}

static void read_back(const char *what, size_t offset, size_t count)
{
	for (size_t done = 0; done < count;) {
		ssize_t got = pread(fd, buffer + done, count - done, start + offset + done);

		if (got <= 0)
			err(1, "step %lu, %s %zu bytes at %zu", step, what, count, offset);
		done += got;
	}
	same(what, buffer, offset, count);
}

/* Where a file grows, what lies between is zero. */
static void grown(size_t end)
{
	if (end > length)
		length = end;
}

static void fill(unsigned char *at, size_t count)
{
	for (size_t i = 0; i < count; i++)
		at[i] = random() >> 7;
}

static void do_write(void)
{
	size_t offset = some_offset(size), count = some_length(size - offset);

	fill(copy + offset, count);
	memcpy(buffer, copy + offset, count);
	for (size_t done = 0; done < count;) {
		ssize_t got = pwrite(fd, buffer + done, count - done, start + offset + done);

		if (got <= 0)
			err(1, "step %lu, write %zu bytes at %zu", step, count, offset);
		done += got;
	}
	grown(offset + count);
}

static void do_read(void)
{
	size_t offset;

	if (!length)
		return;
	offset = some_offset(length);
	read_back("read", offset, some_length(length - offset));
}

static void do_truncate(void)
{
	size_t to = any(size + 1);

	if (ftruncate(fd, to))
		err(1, "step %lu, truncate to %zu", step, to);
	if (to < length)
		memset(copy + to, 0, length - to);
	length = to;
}

static void do_map(void)
{
	size_t page = sysconf(_SC_PAGESIZE), offset, count, first;
	unsigned char *map;

	if (!length)
		return;
	offset = any(length);
	count = some_length(length - offset);
	first = offset / page * page;
	map = mmap(NULL, offset + count - first, PROT_READ | PROT_WRITE, MAP_SHARED, fd, first);
	if (map == MAP_FAILED)
		err(1, "step %lu, map %zu bytes at %zu", step, count, offset);
	same("mapped read", map + offset - first, offset, count);
	fill(copy + offset, count);
	memcpy(map + offset - first, copy + offset, count);
	if (msync(map, offset + count - first, MS_SYNC) || munmap(map, offset + count - first))
		err(1, "step %lu, mapped write of %zu bytes at %zu", step, count, offset);
}

static void do_punch(void)
{
	size_t offset, count;

	if (!length)
		return;
	offset = any(length);
	count = some_length(length - offset);
	if (!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, count))
		memset(copy + offset, 0, count);
	else if (errno != EOPNOTSUPP)
		err(1, "step %lu, hole of %zu bytes at %zu", step, count, offset);
}

static void open_it(void)
{
	fd = open(path, O_RDWR | (direct ? O_DIRECT : O_CREAT), 0600);
	if (fd < 0)
		err(1, "%s", path);
}

static void do_open(void)
{
	if (close(fd))
		err(1, "step %lu, close", step);
	open_it();
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static void do_sync(void)
{
	if (fsync(fd))
		err(1, "step %lu, sync", step);
}

static void one_step(void)
{
	unsigned int what = direct ? any(6) : any(16);

	if (what < 3)
		do_write();
	else if (what < 6)
		do_read();
	else if (what < 9)
		do_map();
	else if (what < 11)
		do_truncate();
	else if (what < 13)
		do_punch();
	else if (what < 15)
		do_open();
	else
		do_sync();
}

static void all_steps(unsigned long count)
{
	copy = aligned_alloc(4096, size);
	buffer = aligned_alloc(4096, size);
	if (!copy || !buffer)
		errx(1, "no memory");
	memset(copy, 0, size);
	open_it();
	if (direct) {
		fill(copy, size);
		memcpy(buffer, copy, size);
		if (pwrite(fd, buffer, size, start) != (ssize_t)size)
			err(1, "fill");
		length = size;
	} else if (ftruncate(fd, 0)) {
		err(1, "empty");
	}
	for (step = 1; step <= count; step++)
		one_step();
	do_sync();
	if (!direct && lseek(fd, 0, SEEK_END) != (off_t)length)
		errx(1, "the end is at %ld, not %zu", (long)lseek(fd, 0, SEEK_END), length);
	do_open();
	if (length)
		read_back("all", 0, length);
	if (close(fd))
		err(1, "close");
}

static int at_once(unsigned long count)
{
	int status, failed = 0;

	size /= PROCESSES;
	for (int i = 0; i < PROCESSES; i++) {
		pid_t child = fork();

		if (child < 0)
			err(1, "fork");
		if (!child) {
			start = i * (off_t)size;
			srandom(i + 1);
			all_steps(count / PROCESSES);
			exit(0);
		}
	}
	while (wait(&status) > 0)
		failed |= status;
	return !!failed;
}

int main(int argc, char **argv)
{
	unsigned long count;
	int status = 0;

	if (argc != 5)
		errx(2, "usage: exercise file|disk|disks PATH SIZE OPERATIONS");
	path = argv[2];
	size = strtoul(argv[3], NULL, 0);
	count = strtoul(argv[4], NULL, 0);
	direct = !!strncmp(argv[1], "file", 4);
	srandom(1);
	if (!strcmp(argv[1], "disks"))
		status = at_once(count);
	else
		all_steps(count);
	printf("%lu operations on %s%s\n", count, path, status ? ": failed" : "");
	return status || all_done();
}
