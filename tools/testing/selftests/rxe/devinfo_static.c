// SPDX-License-Identifier: GPL-2.0
/*
 * What ibv_devinfo prints, by a program that is linked with libibverbs and one provider, that of rxe, and loads no library.
 *
 *   devinfo_static DEVICE
 */
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

static const char *const mtus[] = { "unknown", "256", "512", "1024", "2048", "4096" };

static void print_guid(const char *name, __be64 guid)
{
	uint64_t value = be64toh(guid);

	printf("%s: %04x:%04x:%04x:%04x\n", name, (unsigned int)(value >> 48), (unsigned int)(value >> 32 & 0xffff),
	       (unsigned int)(value >> 16 & 0xffff), (unsigned int)(value & 0xffff));
}

static int print_device(struct ibv_context *context)
{
	struct ibv_device_attr device;

	if (ibv_query_device(context, &device))
		return 1;
	printf("hca_id: %s\ntransport: InfiniBand (%d)\nfw_ver: %s\n", ibv_get_device_name(context->device),
	       context->device->transport_type, device.fw_ver);
	print_guid("node_guid", device.node_guid);
	print_guid("sys_image_guid", device.sys_image_guid);
	printf("vendor_id: 0x%04x\nvendor_part_id: %d\nhw_ver: 0x%X\nphys_port_cnt: %d\n", device.vendor_id, device.vendor_part_id,
	       device.hw_ver, device.phys_port_cnt);
	for (int i = 1; i <= device.phys_port_cnt; i++) {
		struct ibv_port_attr port;

		if (ibv_query_port(context, i, &port) || port.max_mtu > 5 || port.active_mtu > 5)
			return 1;
		printf("port: %d\nstate: PORT_%s (%d)\n", i, port.state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN", port.state);
		printf("max_mtu: %s (%d)\nactive_mtu: %s (%d)\n", mtus[port.max_mtu], port.max_mtu, mtus[port.active_mtu], port.active_mtu);
		printf("sm_lid: %d\nport_lid: %d\nport_lmc: 0x%02x\n", port.sm_lid, port.lid, port.lmc);
		printf("link_layer: %s\n", port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "another");
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (int i = 0; argc == 2 && list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1])) {
			struct ibv_context *context = ibv_open_device(list[i]);

			return context ? print_device(context) : 1;
		}
	fprintf(stderr, "no such device\n");
	return 1;
}
