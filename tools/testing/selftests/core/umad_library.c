// SPDX-License-Identifier: GPL-2.0
/*
 * User MADs by libibumad, unmodified: the ports it finds, agents of both kinds, a request and its answer.
 *
 *   umad_library DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX
 */
#include "verbs.h"
#include <arpa/inet.h>
#include <infiniband/umad.h>

#define CLASS 0x32
#define VALUE 0x5a

static uint8_t oui[3] = { 0x00, 0x14, 0x05 };

static void is(const char *name, bool good, const char *why) { verdict(name, good, false, why); }

static bool finds(const char *device)
{
	char names[UMAD_MAX_DEVICES][UMAD_CA_NAME_LEN];
	int count = umad_get_cas_names(names, UMAD_MAX_DEVICES);

	while (count-- > 0)
		if (!strcmp(names[count], device))
			return true;
	return false;
}

/* The device as the library describes it. */
static void describe(const char *device)
{
	umad_ca_t ca = {};
	umad_port_t port = {};

	is("umad_get_cas_names", finds(device), "it is not among them");
	is("umad_get_ca", !umad_get_ca(device, &ca) && ca.numports == 1 && !strcmp(ca.ca_name, device), "wrong");
	umad_release_ca(&ca);
	is("umad_get_port", !umad_get_port(device, 1, &port) && !strcmp(port.link_layer, "Ethernet") && port.state == 4, "wrong");
	umad_release_port(&port);
}

static int register_both(int port)
{
	long methods[16 / sizeof(long)] = { 1 << 2 };
	struct umad_reg_attr attr = { .mgmt_class = CLASS, .mgmt_class_version = 1, .oui = oui[1] << 8 | oui[2], .method_mask = { 1 << 1 } };
	uint32_t server = 0;
	int old = umad_register_oui(port, CLASS, 0, oui, methods), plain = umad_register(port, 0x0a, 1, 0, methods);

	is("umad_register", plain >= 0, "refused");
	is("umad_register_oui", old >= 0, "refused");
	is("umad_register2", !umad_register2(port, &attr, &server) && server != (uint32_t)old, "refused");
	attr.flags = 1u << 31;
	is("umad_register2 with an unknown flag", umad_register2(port, &attr, &(uint32_t){ 0 }), "taken");
	is("umad_unregister", !umad_unregister(port, old) && !umad_unregister(port, plain), "refused");
	return server;
}

static void fill(void *umad, int gid_index, const char *peer, int peer_index)
{
	struct ib_mad_addr address = { .qpn = htonl(1), .qkey = htonl(0x80010000), .grh_present = 1, .gid_index = gid_index, .hop_limit = 64 };
	uint8_t *mad = umad_get_mad(umad);
	char path[128], line[64] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/gids/%d", peer, peer_index);
	file = fopen(path, "r");
	if (!file || !fgets(line, sizeof(line), file))
		die("read a GID");
	fclose(file);
	line[strcspn(line, "\n")] = 0;
	inet_pton(AF_INET6, line, address.gid);
	umad_set_addr_net(umad, 0, htonl(1), 0, htonl(0x80010000));
	umad_set_grh(umad, &address);
	umad_get_mad_addr(umad)->gid_index = gid_index;
	umad_set_pkey(umad, 0);
	memset(mad, 0, 256);
	mad[0] = 1;
	mad[1] = CLASS;
	mad[2] = 1;
	mad[3] = 1;
	mad[15] = 77;
	memcpy(mad + 37, oui, 3);
	mad[40] = VALUE;
}

static void exchange(int client, int server, int server_agent, char **argv)
{
	void *umad = umad_alloc(1, umad_size() + 256);
	long none[16 / sizeof(long)] = { 0 };
	int agent = umad_register_oui(client, CLASS, 0, oui, none), length = 256;
	uint8_t *mad = umad_get_mad(umad);

	fill(umad, atoi(argv[2]), argv[3], atoi(argv[4]));
	is("umad_send", !umad_send(client, agent, umad, 256, 2000, 1), "refused");
	is("umad_recv of the request", umad_recv(server, umad, &length, 2000) == server_agent && length == 256 && mad[40] == VALUE, "wrong");
	mad[3] |= 0x80;
	mad[41] = VALUE + 1;
	is("umad_send of the answer", !umad_send(server, server_agent, umad, 256, 0, 0), "refused");
	memset(mad, 0, 256);
	length = 256;
	is("umad_poll", !umad_poll(client, 2000), "nothing comes");
	is("umad_recv of the answer", umad_recv(client, umad, &length, 2000) == agent && mad[41] == VALUE + 1 && mad[15] == 77, "wrong");
	is("umad_status", umad_status(umad) == 0, "not 0");
	umad_free(umad);
}

int main(int argc, char **argv)
{
	int client, server;

	if (argc < 5)
		die("usage: DEVICE GID_INDEX PEER_DEVICE PEER_GID_INDEX");
	umad_init();
	describe(argv[1]);
	client = umad_open_port(argv[1], 1);
	server = umad_open_port(argv[3], 1);
	is("umad_open_port", client >= 0 && server >= 0, "refused");
	exchange(client, server, register_both(server), argv);
	is("umad_close_port", !umad_close_port(client) && !umad_close_port(server), "refused");
	umad_done();
	return all_done();
}
