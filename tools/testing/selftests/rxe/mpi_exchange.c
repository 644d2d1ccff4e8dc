// SPDX-License-Identifier: GPL-2.0
/*
 * A program of MPI: messages of many sizes both ways, and collective operations; each rank checks all data that it gets, and prints
 * which device UCX was told to use.
 *
 *   mpi_exchange
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The largest message: far above the size from which UCX reads from the sender's memory. */
#define MOST (1 << 20)
#define ROUNDS 5
#define MAX_RANKS 16

/*
 * The ABI of Open MPI 4 and 5, whose headers the build root does not have: the handles of mpi.h are addresses of variables in the library,
 * and a null pointer stands for a status that nobody wants.
 */
typedef void *handle;

static handle world, byte, uint64, sum;
static int (*init)(int *, char ***), (*finalize)(void), (*comm_rank)(handle, int *), (*comm_size)(handle, int *);
static int (*sendrecv)(const void *, int, handle, int, int, void *, int, handle, int, int, handle, void *);
static int (*alltoall)(const void *, int, handle, void *, int, handle, handle);
static int (*allreduce)(const void *, void *, int, handle, handle, handle);

static void die(const char *what)
{
	printf("%s\n", what);
	exit(1);
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found)
		die(dlerror());
	return found;
}

static void load(void)
{
	void *library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);

	if (!library)
		die(dlerror());
	world = symbol(library, "ompi_mpi_comm_world");
	byte = symbol(library, "ompi_mpi_byte");
	uint64 = symbol(library, "ompi_mpi_uint64_t");
	sum = symbol(library, "ompi_mpi_op_sum");
	init = symbol(library, "MPI_Init");
	finalize = symbol(library, "MPI_Finalize");
	comm_rank = symbol(library, "MPI_Comm_rank");
	comm_size = symbol(library, "MPI_Comm_size");
	sendrecv = symbol(library, "MPI_Sendrecv");
	alltoall = symbol(library, "MPI_Alltoall");
	allreduce = symbol(library, "MPI_Allreduce");
}

/* No two bytes of a message that are near each other are alike, nor are those of two ranks or of two messages. */
static uint8_t data_of(int rank, int number, int at)
{
	return at * 7 + (at >> 8) * 13 + rank * 101 + number * 31;
}

static void fill(uint8_t *to, int len, int rank, int number)
{
	for (int i = 0; i < len; i++)
		to[i] = data_of(rank, number, i);
}

static void expect(const char *what, const uint8_t *from, int len, int rank, int number)
{
	for (int i = 0; i < len; i++)
		if (from[i] != data_of(rank, number, i)) {
			printf("%s %d of %d bytes from rank %d: wrong at %d\n", what, number, len, rank, i);
			exit(1);
		}
}

int main(int argc, char **argv)
{
	static uint8_t out[MOST + 1], in[MOST + 1], parts_out[MAX_RANKS * 4096], parts_in[MAX_RANKS * 4096];
	int rank, ranks, peer, number = 0;

	load();
	if (init(&argc, &argv) || comm_rank(world, &rank) || comm_size(world, &ranks) || ranks < 2 || ranks > MAX_RANKS || ranks % 2)
		die("there is no even number of ranks");
	peer = rank ^ 1;
	for (int round = 0; round < ROUNDS; round++)
		/* Sizes around those at which protocols change. */
		for (int len = 0; len <= MOST; len = len < 4 ? len + 1 : len * 3 + (len & 5)) {
			fill(out, len, rank, ++number);
			memset(in, 0xee, len + 1);
			if (sendrecv(out, len, byte, peer, number, in, len, byte, peer, number, world, NULL))
				die("MPI_Sendrecv");
			expect("message", in, len, peer, number);
			if (in[len] != 0xee)
				die("a message is longer than it is");
		}
	for (int round = 0; round < ROUNDS; round++) {
		uint64_t mine[8], all[8];

		number++;
		for (int i = 0; i < ranks; i++)
			fill(parts_out + i * 4096, 4096, rank, number + i);
		if (alltoall(parts_out, 4096, byte, parts_in, 4096, byte, world))
			die("MPI_Alltoall");
		for (int i = 0; i < ranks; i++)
			expect("part", parts_in + i * 4096, 4096, i, number + rank);
		for (int i = 0; i < 8; i++)
			mine[i] = (uint64_t)(rank + 1) << (i * 7);
		if (allreduce(mine, all, 8, uint64, sum, world))
			die("MPI_Allreduce");
		for (int i = 0; i < 8; i++)
			if (all[i] != (uint64_t)(ranks * (ranks + 1) / 2) << (i * 7))
				die("MPI_Allreduce: a wrong sum");
	}
	if (finalize())
		die("MPI_Finalize");
	printf("rank %d, %s: all is right\n", rank, getenv("UCX_NET_DEVICES"));
	return 0;
}
