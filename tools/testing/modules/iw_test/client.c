// SPDX-License-Identifier: GPL-2.0
/* Clients of iw_cm: what a test tells their handlers to do, and what these were told. */
#include "iw_test.h"

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
