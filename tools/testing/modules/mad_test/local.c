// SPDX-License-Identifier: GPL-2.0
/*
 * Queries for paths that a program orders, so that it can answer them itself as the local service (RDMA_NL_LS):
 *
 *	path MASK TIMEOUT [CANCEL]	the components as a number (hexadecimal), the time in ms, cancelled after so many ms
 *
 * The parameter "ordered" tells the result, "STATUS PATHS DLID FLAGS ASKED MS": what the query ended with, LID and flags of the
 * last path, how often the subnet administrator was asked meanwhile, how long it took.
 */
#include "sa.h"

static char ordered_result[80];
module_param_string(ordered, ordered_result, sizeof(ordered_result), 0400);

struct ordered {
	struct completion done;
	int status;
	unsigned int count, dlid, flags;
};

static void on_path(int status, struct sa_path_rec *rec, unsigned int count, void *context)
{
	struct ordered *query = context;

	query->status = status;
	if (!status) {
		query->count = count;
		/* The last one: all of them have to be there. */
		query->dlid = be16_to_cpu(rec[count - 1].ib.dlid);
		query->flags = rec[count - 1].flags;
	}
	complete(&query->done);
}

int mt_order_path(const char *text)
{
	unsigned int timeout, cancel = 0;
	unsigned long long mask;
	struct ib_sa_query *query;
	struct ordered ordered = {};
	struct sa_path_rec path;
	unsigned long begin;
	int id, args;

	args = sscanf(text, "%llx %u %u", &mask, &timeout, &cancel);
	if (args < 2)
		return -EINVAL;
	init_completion(&ordered.done);
	mt_path(&path);
	mt_wire_begin(NULL);
	ib_sa_register_client(&mt_sa_client);
	begin = jiffies;
	id = ib_sa_path_rec_get(&mt_sa_client, mt_device, 1, &path, (__force ib_sa_comp_mask)cpu_to_be64(mask), timeout,
				GFP_KERNEL, on_path, &ordered, &query);
	/* It is not needed any more. */
	memset(&path, 0x5a, sizeof(path));
	if (id >= 0 && args == 3) {
		msleep(cancel);
		ib_sa_cancel_query(id, query);
	}
	if (id < 0)
		ordered.status = id;
	else
		wait_for_completion(&ordered.done);
	snprintf(ordered_result, sizeof(ordered_result), "%d %u %u %u %d %lld", ordered.status, ordered.count, ordered.dlid,
		 ordered.flags, mt_sa_requests(0x35, 1), mt_ms_since(begin));
	ib_sa_unregister_client(&mt_sa_client);
	mt_wire_end();
	return 0;
}
