// SPDX-License-Identifier: GPL-2.0
/*
 * A driver of an InfiniBand device that does not exist: fakeib0, whose two ports have LIDs, a subnet manager, P_Keys and GIDs,
 * QP0 and QP1. Its subnet is a few lines in wire.c: the ports are joined to each other, and what is for the subnet manager's
 * LID is answered by the subnet administrator of sa.c. It is C, so that it judges any ib_core alike.
 *
 * A test in the kernel uses fake_ib.h. Programs write commands to the parameter "do", numbers in any base:
 *
 *	lose NTH COUNT, twice NTH COUNT		of the datagrams that are sent from now on, COUNT from the NTH on
 *	delay MS				each takes so long
 *	hold PORT QPN WHAT			FAKE_IB_HOLD_*; 0: nothing
 *	fail PORT QPN NTH STATUS		the NTH next send completes with that status (enum ib_wc_status)
 *	refuse PORT QPN NTH ERRNO		it is refused
 *	inject PORT HEX...			a datagram arrives: fields as told by "sent", see wire.c
 *	lid PORT N, smlid PORT N, lmc PORT N, smsl PORT N, state PORT N, pkey PORT INDEX N
 *	event PORT NUMBER			enum ib_event_type
 *	sa 0 or 1				whether the subnet administrator answers
 *	sastatus STATUS				with that status, 0: as it should
 *	services N				it has so many service records
 *	remove, add				the device goes, and comes again
 *	calm					nothing of the above happens any more, but for what ports are
 *	settle					waits until all is done
 *
 * "asked" tells what the driver was asked for since it was last read, and the file "fake_ib/sent" in debugfs the last
 * datagrams that were sent, in hexadecimal.
 */
#include <linux/debugfs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include "fake_ib.h"

MODULE_DESCRIPTION("an InfiniBand device that does not exist, for tests");
MODULE_LICENSE("GPL");

static struct dentry *directory;

static int sent_show(struct seq_file *file, void *unused)
{
	fake_ib_tell_sent(file);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(sent);

/* Whom the wire brings datagrams to. */
static const struct fake_ib_ends ends = {
	.receive = fake_ib_receive,
	.settle = fake_ib_queues_settle,
	.administrator = fake_ib_sa_receive,
};

static int __init fake_ib_init(void)
{
	u32 port;
	int ret;

	for (port = 1; port <= FAKE_IB_PORTS; port++)
		fake_ib_port_start(port);
	ret = fake_ib_queues_start();
	if (ret)
		return ret;
	ret = fake_ib_wire_start(&ends);
	if (ret)
		goto stop_queues;
	ret = fake_ib_add();
	if (ret)
		goto stop;
	directory = debugfs_create_dir("fake_ib", NULL);
	debugfs_create_file("sent", 0400, directory, NULL, &sent_fops);
	fake_ib_accept_commands(true);
	return 0;

stop:
	fake_ib_wire_stop();
stop_queues:
	fake_ib_queues_stop();
	return ret;
}

static void __exit fake_ib_exit(void)
{
	fake_ib_accept_commands(false);
	debugfs_remove_recursive(directory);
	fake_ib_remove();
	fake_ib_wire_stop();
	fake_ib_sa_stop();
	fake_ib_queues_stop();
}

module_init(fake_ib_init);
module_exit(fake_ib_exit);
