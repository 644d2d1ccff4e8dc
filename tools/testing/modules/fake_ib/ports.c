// SPDX-License-Identifier: GPL-2.0
/* What the ports of the device are, and what the driver was asked for. */
#include <linux/module.h>
#include "fake_ib.h"

struct ib_device *fake_ib_device;
EXPORT_SYMBOL_GPL(fake_ib_device);
struct fake_ib_port fake_ib_ports[FAKE_IB_PORTS + 1];
EXPORT_SYMBOL_GPL(fake_ib_ports);

void fake_ib_port_start(u32 number)
{
	struct fake_ib_port *port = &fake_ib_ports[number];

	port->lid = 0x10 * number;
	port->sm_lid = FAKE_IB_SM_LID;
	port->subnet_timeout = 18;
	port->state = IB_PORT_ACTIVE;
	port->cap_mask = IB_PORT_SYS_IMAGE_GUID_SUP;
	port->pkeys[0] = IB_DEFAULT_PKEY_FULL;
	port->pkeys[1] = 0x8001;
	port->gids[0].global.subnet_prefix = cpu_to_be64(FAKE_IB_PREFIX);
	port->gids[0].global.interface_id = cpu_to_be64(0x0002c90300000010ULL + number);
}

/* What the driver is asked for */

static char asked[PAGE_SIZE];
static DEFINE_SPINLOCK(asked_lock);

void fake_ib_ask(const char *fmt, ...)
{
	unsigned long flags;
	size_t used;
	va_list args;

	spin_lock_irqsave(&asked_lock, flags);
	used = strlen(asked);
	va_start(args, fmt);
	vscnprintf(asked + used, sizeof(asked) - used, fmt, args);
	va_end(args);
	spin_unlock_irqrestore(&asked_lock, flags);
}

static int get_asked(char *buffer, const struct kernel_param *param)
{
	int length;

	spin_lock_irq(&asked_lock);
	length = strscpy(buffer, asked, PAGE_SIZE);
	asked[0] = 0;
	spin_unlock_irq(&asked_lock);
	return length;
}

static const struct kernel_param_ops asked_ops = { .get = get_asked };
module_param_cb(asked, &asked_ops, NULL, 0400);
