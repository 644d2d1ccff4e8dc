// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the exported functions of iw_cm, with a driver and clients of their own. It is C, so that it judges any iw_cm alike.
 *
 * Writing the name of a test to the parameter "run" runs it, and logs a line for each result: "pass|NAME" or "fail|NAME|got VALUE".
 * listen, connect, peer, end, many and end-many are no tests, but what a test of the port mapper needs: see ports.c.
 * "strict" says that iw_cm is to do what stock's does not, which is not asked for it: it would end the kernel.
 */
#include "iw_test.h"

MODULE_DESCRIPTION("tests of iw_cm");
MODULE_LICENSE("GPL");

bool it_strict;
module_param_named(strict, it_strict, bool, 0444);
static DEFINE_MUTEX(running);
static const char *test = "";

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "calls", it_test_calls },
	{ "events", it_test_events },
	{ "faults", it_test_faults },
	{ "storm", it_test_storm },
};

void it_result(bool ok, const char *what, long long got)
{
	if (ok)
		pr_info("pass|%s: %s\n", test, what);
	else
		pr_info("fail|%s: %s|got %lld\n", test, what, got);
}

/* Clients */

static int handler(struct iw_cm_id *id, struct iw_cm_event *event)
{
	struct it_client *client = id->context;
	int ret;

	atomic_inc(&client->inside);
	client->last = *event;
	memset(client->data, 0, sizeof(client->data));
	if (event->private_data_len)
		memcpy(client->data, event->private_data, event->private_data_len);
	if (event->event == IW_CM_EVENT_CONNECT_REQUEST) {
		client->child = id;
		if (client->for_child) {
			id->context = client->for_child;
			client->for_child->id = id;
		}
	}
	ret = client->ret;
	client->calls++;
	complete(&client->called);
	if (client->wait_for)
		wait_for_completion(client->wait_for);
	atomic_dec(&client->inside);
	return ret;
}

int it_client_up(struct it_client *client)
{
	struct sockaddr_in *local, *remote;
	struct iw_cm_id *id;

	memset(client, 0, sizeof(*client));
	init_completion(&client->called);
	id = iw_create_cm_id(it_driver.device, handler, client);
	if (IS_ERR(id))
		return PTR_ERR(id);
	local = (void *)&id->local_addr;
	remote = (void *)&id->remote_addr;
	local->sin_family = remote->sin_family = AF_INET;
	local->sin_addr.s_addr = htonl(0x0a000001);
	local->sin_port = htons(7174);
	remote->sin_addr.s_addr = htonl(0x0a000002);
	remote->sin_port = htons(7175);
	client->id = id;
	return 0;
}

bool it_told(struct it_client *client, int calls)
{
	while (client->calls < calls) {
		if (!wait_for_completion_timeout(&client->called, 10 * HZ))
			return false;
	}
	return client->calls == calls;
}

int it_connect(struct it_client *client)
{
	struct iw_cm_conn_param param = { .qpn = IT_QPN, .private_data = "hello", .private_data_len = 5, .ord = 1, .ird = 1 };

	return iw_cm_connect(client->id, &param);
}

int it_accept(struct iw_cm_id *id)
{
	struct iw_cm_conn_param param = { .qpn = IT_QPN, .ord = 1, .ird = 1 };

	return iw_cm_accept(id, &param);
}

static int run(const char *value, const struct kernel_param *param)
{
	int nth, ret = -EINVAL;

	mutex_lock(&running);
	if (it_ports(value)) {
		mutex_unlock(&running);
		return 0;
	}
	for (nth = 0; nth < ARRAY_SIZE(tests); nth++) {
		if (!sysfs_streq(value, tests[nth].name))
			continue;
		test = tests[nth].name;
		it_driver_reset();
		tests[nth].run();
		CHECK_EQ("no reference to a queue pair is left", 0, atomic_read(&it_driver.qp_refs));
		CHECK_EQ("the driver holds no identifier", 0, atomic_read(&it_driver.id_refs));
		ret = 0;
	}
	mutex_unlock(&running);
	return ret;
}

static const struct kernel_param_ops run_ops = { .set = run };
module_param_cb(run, &run_ops, NULL, 0200);
MODULE_PARM_DESC(run, "Runs a test");

static int __init it_init(void)
{
	return it_device_up();
}

static void __exit it_exit(void)
{
	it_device_down();
}

module_init(it_init);
module_exit(it_exit);
