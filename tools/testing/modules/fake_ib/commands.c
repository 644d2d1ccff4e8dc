// SPDX-License-Identifier: GPL-2.0
/* The commands of programs, which main.c tells of: the parameter "do". */
#include <linux/hex.h>
#include <linux/module.h>
#include <linux/slab.h>
#include "fake_ib.h"

static bool ready;

static int hex_bytes(const char *text, void *bytes, size_t most, size_t *length)
{
	*length = strcspn(text, " \n") / 2;
	return *length > most ? -EINVAL : hex2bin(bytes, text, *length);
}

/* inject PORT SRC-QPN DEST-QPN SLID SL PKEY QKEY GRH MAD; GRH is "-" where there is none. */
static int inject(const char *text)
{
	struct fake_ib_packet *packet = kzalloc_obj(*packet);
	int used = 0, ret = -EINVAL;
	u32 port, slid, sl, pkey;
	size_t length;

	if (!packet)
		return -ENOMEM;
	if (sscanf(text, "%i %i %i %i %i %i %i %n", &port, &packet->src_qpn, &packet->dest_qpn, &slid, &sl, &pkey,
		   &packet->qkey, &used) != 7 || !used || !port || port > FAKE_IB_PORTS)
		goto out;
	packet->to_port = port;
	packet->slid = slid;
	packet->sl = sl;
	packet->pkey = pkey;
	packet->length = FAKE_IB_SMP_MTU;
	text += used;
	packet->has_grh = *text != '-';
	if (packet->has_grh && hex_bytes(text, &packet->grh, sizeof(packet->grh), &length))
		goto out;
	text += strcspn(text, " ");
	text += strspn(text, " ");
	if (!hex_bytes(text, packet->mad, sizeof(packet->mad), &length))
		ret = fake_ib_deliver(packet);
out:
	kfree(packet);
	return ret;
}

static int change_port(const char *name, const u32 *arg, int args)
{
	struct fake_ib_port *port = &fake_ib_ports[arg[0]];

	if (!arg[0] || arg[0] > FAKE_IB_PORTS)
		return -EINVAL;
	if (!fake_ib_device)
		return -ENODEV;
	if (!strcmp(name, "event") && args == 2)
		fake_ib_event(arg[0], arg[1]);
	else if (!strcmp(name, "lid") && args == 2)
		port->lid = arg[1];
	else if (!strcmp(name, "smlid") && args == 2)
		port->sm_lid = arg[1];
	else if (!strcmp(name, "lmc") && args == 2)
		port->lmc = arg[1] & 7;
	else if (!strcmp(name, "smsl") && args == 2)
		port->sm_sl = arg[1] & 15;
	else if (!strcmp(name, "state") && args == 2)
		port->state = arg[1];
	else if (!strcmp(name, "pkey") && args == 3 && arg[1] < FAKE_IB_PKEYS)
		port->pkeys[arg[1]] = arg[2];
	else if (!strcmp(name, "hold") && args == 3)
		fake_ib_hold(arg[0], arg[1], arg[2]);
	else if (!strcmp(name, "fail") && args == 4)
		fake_ib_fail_send(arg[0], arg[1], arg[2], arg[3]);
	else if (!strcmp(name, "refuse") && args == 4)
		fake_ib_refuse_send(arg[0], arg[1], arg[2], -(int)arg[3]);
	else
		return -EINVAL;
	return 0;
}

static void calm(void)
{
	u32 port, qpn;

	fake_ib_lose(0, 0);
	fake_ib_double(0, 0);
	fake_ib_delay(0);
	fake_ib_administrate(true);
	for (port = 1; port <= FAKE_IB_PORTS; port++) {
		for (qpn = 0; qpn < 2; qpn++) {
			fake_ib_fail_send(port, qpn, 0, 0);
			fake_ib_refuse_send(port, qpn, 0, 0);
			fake_ib_hold(port, qpn, 0);
		}
	}
}

static int command(const char *text)
{
	u32 arg[4] = {};
	char name[12];
	int args;

	if (strstarts(text, "inject "))
		return inject(text + 7);
	args = sscanf(text, "%11s %i %i %i %i", name, &arg[0], &arg[1], &arg[2], &arg[3]) - 1;
	if (args < 0)
		return -EINVAL;
	if (!strcmp(name, "lose") && args == 2)
		fake_ib_lose(arg[0], arg[1]);
	else if (!strcmp(name, "twice") && args == 2)
		fake_ib_double(arg[0], arg[1]);
	else if (!strcmp(name, "delay") && args == 1)
		fake_ib_delay(arg[0]);
	else if (!strcmp(name, "sa") && args == 1)
		fake_ib_administrate(arg[0]);
	else if (!strcmp(name, "sastatus") && args == 1)
		fake_ib_sa_status(arg[0]);
	else if (!strcmp(name, "services") && args == 1)
		fake_ib_sa_services(arg[0]);
	else if (!strcmp(name, "calm") && !args)
		calm();
	else if (!strcmp(name, "settle") && !args)
		fake_ib_settle();
	else if (!strcmp(name, "remove") && !args)
		fake_ib_remove();
	else if (!strcmp(name, "add") && !args)
		return fake_ib_add();
	else
		return change_port(name, arg, args);
	return 0;
}

static int set_do(const char *text, const struct kernel_param *param)
{
	return ready ? command(text) : -ENODEV;
}

static const struct kernel_param_ops do_ops = { .set = set_do };
module_param_cb(do, &do_ops, NULL, 0200);

void fake_ib_accept_commands(bool value)
{
	kernel_param_lock(THIS_MODULE);
	ready = value;
	kernel_param_unlock(THIS_MODULE);
}
