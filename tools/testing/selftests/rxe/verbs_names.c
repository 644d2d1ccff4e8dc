// SPDX-License-Identifier: GPL-2.0
/*
 * The names of what the kernel tells: node types, states of ports, statuses of completions, events. The texts are those of rdma-core,
 * where a program may have got used to them.
 *
 *   verbs_names DEVICE GID_INDEX
 */
#include "verbs.h"

static const char *const statuses[] = {
	"success", "local length error", "local QP operation error", "local EE context operation error", "local protection error",
	"Work Request Flushed Error", "memory management operation error", "bad response error", "local access error",
	"remote invalid request error", "remote access error", "remote operation error", "transport retry counter exceeded",
	"RNR retry counter exceeded", "local RDD violation error", "remote invalid RD request", "aborted error",
	"invalid EE context number", "invalid EE context state", "fatal error", "response timeout error", "general error",
	"TM error", "TM software rendezvous",
};

static const char *const events[] = {
	"CQ error", "local work queue catastrophic error", "invalid request local work queue error", "local access violation work queue error",
	"communication established", "send queue drained", "path migrated", "path migration request error",
	"local catastrophic error", "port active", "port error", "LID change", "P_Key change", "SM change", "SRQ catastrophic error",
	"SRQ limit reached", "last WQE reached", "client reregistration", "GID table change", "WQ fatal", "Device link speed change",
};

static const char *const port_states[] = { "no state change (NOP)", "down", "init", "armed", "active", "active defer" };

static const char *const node_types[] = {
	[1] = "InfiniBand channel adapter", [2] = "InfiniBand switch", [3] = "InfiniBand router", [4] = "iWARP NIC", [5] = "usNIC",
	[6] = "usNIC UDP", [7] = "unspecified",
};

static const char *status_name(int value) { return ibv_wc_status_str(value); }
static const char *event_name(int value) { return ibv_event_type_str(value); }
static const char *port_name(int value) { return ibv_port_state_str(value); }
static const char *node_name(int value) { return ibv_node_type_str(value); }

/* The last one is of a newer rdma-core. */
static int known_events(void)
{
	int last = ARRAY_SIZE(events) - 1;

	return strcmp(event_name(last), "unknown") ? last + 1 : last;
}

/* Each value from `first` on has its text, the one behind the last is "unknown". */
static void names(const char *function, const char *(*name)(int), const char *const *wanted, int first, int count, const char *unknown)
{
	char why[160] = "";

	for (int i = first; i <= count; i++) {
		const char *text = i < count ? wanted[i] : unknown;

		if (strcmp(name(i), text))
			snprintf(why, sizeof(why), "%d: %s, not %s", i, name(i), text);
	}
	verdict(function, !*why, false, why);
}

int main(int argc, char **argv)
{
	struct ibv_port_attr port = { 0 };

	open_device(argc, argv);
	names("ibv_wc_status_str", status_name, statuses, 0, ARRAY_SIZE(statuses), "unknown");
	names("ibv_event_type_str", event_name, events, 0, known_events(), "unknown");
	names("ibv_port_state_str", port_name, port_states, 0, ARRAY_SIZE(port_states), "unknown");
	names("ibv_node_type_str", node_name, node_types, 1, ARRAY_SIZE(node_types), "unknown");
	ibv_query_port(context, 1, &port);
	verdict("the node of the device", !strcmp(ibv_node_type_str(context->device->node_type), "InfiniBand channel adapter"), false,
		ibv_node_type_str(context->device->node_type));
	verdict("the state of its port", !strcmp(ibv_port_state_str(port.state), "active"), false, ibv_port_state_str(port.state));
	return all_done();
}
