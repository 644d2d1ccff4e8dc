// SPDX-License-Identifier: GPL-2.0
/* Clients: the order in which they are added to devices, and events. */
#include <linux/delay.h>
#include "kverbs.h"

/* What was seen: words. */
static char seen[2048];
static DEFINE_SPINLOCK(seen_lock);

static __printf(1, 2) void saw(const char *format, ...)
{
	size_t used;
	va_list args;

	spin_lock(&seen_lock);
	used = strlen(seen);
	va_start(args, format);
	vscnprintf(seen + used, sizeof(seen) - used, format, args);
	va_end(args);
	spin_unlock(&seen_lock);
}

static int show_log(char *page, const struct kernel_param *param)
{
	int length;

	spin_lock(&seen_lock);
	length = scnprintf(page, PAGE_SIZE, "%s\n", seen);
	seen[0] = 0;
	spin_unlock(&seen_lock);
	return length;
}

static const struct kernel_param_ops log_ops = { .get = show_log };
module_param_cb(log, &log_ops, NULL, 0400);
MODULE_PARM_DESC(log, "What the clients have seen since it was read last");

static struct ib_client clients[3];
static struct ib_event_handler handler;
static bool listening;

static void on_event(struct ib_event_handler *h, struct ib_event *event)
{
	saw(" %s:%s", dev_name(&event->device->dev), ib_event_msg(event->event));
}

static int add(struct ib_device *device, int nth)
{
	/* A client may sleep, while others add and remove devices. */
	if (nth == 3)
		msleep(1000);
	saw(" +%d%s", nth, dev_name(&device->dev));
	ib_set_client_data(device, &clients[nth - 1], &clients[nth - 1]);
	if (ib_get_client_data(device, &clients[nth - 1]) != &clients[nth - 1])
		saw(" data-lost");
	if (nth == 1 && !listening) {
		INIT_IB_EVENT_HANDLER(&handler, device, on_event);
		ib_register_event_handler(&handler);
		listening = true;
	}
	return 0;
}

static void unlisten(void)
{
	if (listening)
		ib_unregister_event_handler(&handler);
	listening = false;
}

static void removed(struct ib_device *device, void *data, int nth)
{
	if (nth == 3)
		msleep(1000);
	saw(" -%d%s%s", nth, dev_name(&device->dev), data == &clients[nth - 1] ? "" : "-wrong-data");
	if (nth == 1 && listening && handler.device == device)
		unlisten();
}

static void renamed(struct ib_device *device, void *data)
{
	saw(" =%s", dev_name(&device->dev));
}

#define CLIENT(nth)									\
	static int add##nth(struct ib_device *device) { return add(device, nth); }	\
	static void remove##nth(struct ib_device *device, void *data) { removed(device, data, nth); }
CLIENT(1)
CLIENT(2)
CLIENT(3)

static struct ib_client clients[3] = {
	{ .name = "kverbs1", .add = add1, .remove = remove1, .rename = renamed },
	{ .name = "kverbs2", .add = add2, .remove = remove2 },
	{ .name = "kverbs3", .add = add3, .remove = remove3 },
};

/* Written to: what to do. */
static int set_do(const char *value, const struct kernel_param *param)
{
	int index;

	if (sysfs_streq(value, "unlisten"))
		unlisten();
	else if (sysfs_streq(value, "two devices"))
		kv_test_two_devices("left", "right");
	else if (sysfs_streq(value, "adaptive"))
		kv_test_adaptive("left");
	else if (sscanf(value, "P_Keys %d", &index) == 1)
		kv_test_pkeys("left", index);
	else
		return -EINVAL;
	return 0;
}

static const struct kernel_param_ops do_ops = { .set = set_do };
module_param_cb(do, &do_ops, NULL, 0200);
MODULE_PARM_DESC(do, "unlisten: no more events; two devices: those on left and right, and what is of one of them; adaptive: moderation of queues "
	"of the device on left; P_Keys N: N is the index of the full member among the members of the default partition there");

int kv_clients_register(void)
{
	int nth, ret;

	for (nth = 0; nth < 3; nth++) {
		ret = ib_register_client(&clients[nth]);
		if (ret)
			break;
	}
	if (!ret)
		return 0;
	while (nth--)
		ib_unregister_client(&clients[nth]);
	return ret;
}

void kv_clients_unregister(void)
{
	int nth;

	for (nth = 0; nth < 3; nth++)
		ib_unregister_client(&clients[nth]);
	pr_info("log|%s\n", seen);
}
