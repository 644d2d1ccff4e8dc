// SPDX-License-Identifier: GPL-2.0
/*
 * Commands of /dev/infiniband/rdma_cm as they are, without librdmacm: an identifier that is bound and resolves an address and a route.
 *
 *   cm_file DEVICE GID_INDEX ADDRESS
 */
#include "verbs.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>

static struct sockaddr_in here;

/* Types of events (enum rdma_cm_event_type of librdmacm). */
#define ADDR_RESOLVED 0
#define ROUTE_RESOLVED 2

static void is(const char *name, bool good)
{
	verdict(name, good, false, strerror(errno));
}

static int file;

/* Writes a command; an errno value. */
static int command(uint32_t number, void *in, uint16_t in_size, uint16_t out_size)
{
	struct { struct rdma_ucm_cmd_hdr head; char body[512]; } request = { { number, in_size, out_size } };

	memcpy(request.body, in, in_size);
	return write(file, &request, sizeof(request.head) + in_size) < 0 ? errno : 0;
}

/* The next event is of this type. */
static bool reported(uint32_t type)
{
	struct rdma_ucm_event_resp event;
	struct rdma_ucm_get_event get = { .response = (uintptr_t)&event };
	struct pollfd fd = { .fd = file, .events = POLLIN };

	return poll(&fd, 1, 5000) == 1 && !command(RDMA_USER_CM_CMD_GET_EVENT, &get, sizeof(get), sizeof(event)) && event.event == type &&
	       event.uid == 77;
}

static void raw(void)
{
	struct rdma_ucm_create_id_resp made;
	struct rdma_ucm_create_id create = { .uid = 77, .response = (uintptr_t)&made, .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC };
	struct rdma_ucm_bind_ip bind = { 0 };
	struct rdma_ucm_resolve_ip where = { .timeout_ms = 2000 };
	struct rdma_ucm_resolve_route route = { .timeout_ms = 2000 };
	struct rdma_ucm_query_addr_resp addresses = { 0 };
	struct rdma_ucm_query query = { .response = (uintptr_t)&addresses, .option = RDMA_USER_CM_QUERY_ADDR };
	struct rdma_ucm_destroy_id_resp gone;
	struct rdma_ucm_destroy_id destroy = { .response = (uintptr_t)&gone };
	FILE *abi = fopen("/sys/class/misc/rdma_cm/abi_version", "r");
	struct ibv_device_attr attr;
	int version = 0;

	ibv_query_device(context, &attr);
	is("the ABI is 4", abi && fscanf(abi, "%d", &version) == 1 && version == 4);
	file = open("/dev/infiniband/rdma_cm", O_RDWR);
	is("CREATE_ID", file >= 0 && !command(RDMA_USER_CM_CMD_CREATE_ID, &create, sizeof(create), sizeof(made)));
	bind.id = where.id = route.id = query.id = destroy.id = made.id;
	memcpy(&bind.addr, &here, sizeof(here));
	is("BIND_IP", !command(RDMA_USER_CM_CMD_BIND_IP, &bind, sizeof(bind), 0));
	is("QUERY: the device", !command(RDMA_USER_CM_CMD_QUERY, &query, sizeof(query), sizeof(addresses)) && addresses.node_guid == attr.node_guid &&
	   addresses.port_num == 1 && ((struct sockaddr_in *)&addresses.src_addr)->sin_addr.s_addr == here.sin_addr.s_addr);
	here.sin_port = htons(7500);
	memcpy(&where.dst_addr, &here, sizeof(here));
	is("RESOLVE_IP", !command(RDMA_USER_CM_CMD_RESOLVE_IP, &where, sizeof(where), 0) && reported(ADDR_RESOLVED));
	is("RESOLVE_ROUTE", !command(RDMA_USER_CM_CMD_RESOLVE_ROUTE, &route, sizeof(route), 0) && reported(ROUTE_RESOLVED));
	is("a command that is none", command(200, &create, sizeof(create), sizeof(made)) == EINVAL);
	is("DESTROY_ID: two events were taken", !command(RDMA_USER_CM_CMD_DESTROY_ID, &destroy, sizeof(destroy), sizeof(gone)) && gone.events_reported == 2);
	is("DESTROY_ID: it is gone", command(RDMA_USER_CM_CMD_DESTROY_ID, &destroy, sizeof(destroy), sizeof(gone)) == ENOENT);
	close(file);
	if (abi)
		fclose(abi);
}

int main(int argc, char **argv)
{
	open_device(argc, argv);
	if (argc < 4)
		die("usage: DEVICE GID_INDEX ADDRESS");
	here.sin_family = AF_INET;
	inet_pton(AF_INET, argv[3], &here.sin_addr);
	raw();
	return all_done();
}
