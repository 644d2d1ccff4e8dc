// SPDX-License-Identifier: GPL-2.0
/* What the port mapper makes of the ends of identifiers. A command is told by a line "ports|COMMAND RESULT ENDS",
 * and " mapped" where the identifier is marked so. */
#include "iw_test.h"

static struct it_client listener, connection;

static void say(const char *what, int ret, const struct sockaddr_storage *local, const struct sockaddr_storage *remote, bool mapped)
{
	pr_info("ports|%s %d %pISpc %pISpc%s\n", what, ret, local, remote, mapped ? " mapped" : "");
}

static void listen(void)
{
	int ret = it_client_up(&listener);

	if (!ret)
		ret = iw_cm_listen(listener.id, 4);
	say("listen", ret, &listener.id->m_local_addr, &listener.id->m_remote_addr, listener.id->mapped);
}

static void connect(void)
{
	int ret = it_client_up(&connection);

	if (!ret)
		ret = it_connect(&connection);
	say("connect", ret, &it_driver.connect_local, &it_driver.connect_remote, connection.id->mapped);
}

/* A peer comes to the listener: what the client is told of its ends. */
static void peer(void)
{
	int ret, calls = listener.calls + 1;

	listener.ret = -ECONNABORTED;
	ret = it_emit(listener.id, IW_CM_EVENT_CONNECT_REQUEST, 0, NULL);
	it_told(&listener, calls);
	say("peer", ret, &listener.last.local_addr, &listener.last.remote_addr, false);
}

static void end(void)
{
	if (listener.id)
		iw_destroy_cm_id(listener.id);
	if (connection.id) {
		it_emit(connection.id, IW_CM_EVENT_CONNECT_REPLY, -ETIMEDOUT, NULL);
		it_told(&connection, 1);
		it_put(connection.id);
		iw_destroy_cm_id(connection.id);
	}
	listener.id = connection.id = NULL;
}

/* So many identifiers as fit into a few packets, each at a port of its own. */
#define MANY 40
static struct it_client many[MANY];

static void listen_many(void)
{
	int nth;

	for (nth = 0; nth < MANY; nth++) {
		if (it_client_up(&many[nth]))
			return;
		((struct sockaddr_in *)&many[nth].id->local_addr)->sin_port = htons(10000 + nth);
		if (iw_cm_listen(many[nth].id, 1))
			return;
	}
	pr_info("ports|many %d\n", nth);
}

static void end_many(void)
{
	int nth;

	for (nth = 0; nth < MANY; nth++)
		iw_destroy_cm_id(many[nth].id);
}

bool it_ports(const char *command)
{
	if (sysfs_streq(command, "listen"))
		listen();
	else if (sysfs_streq(command, "connect"))
		connect();
	else if (sysfs_streq(command, "peer"))
		peer();
	else if (sysfs_streq(command, "end"))
		end();
	else if (sysfs_streq(command, "many"))
		listen_many();
	else if (sysfs_streq(command, "end-many"))
		end_many();
	else
		return false;
	return true;
}
