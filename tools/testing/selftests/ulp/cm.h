/* SPDX-License-Identifier: GPL-2.0 */
/* What programs share that call librdmacm: verdicts, events, identifiers. */
#ifndef CM_H
#define CM_H

#include "verbs.h"
#include <poll.h>
#include <rdma/rdma_cma.h>

/* One host is both ends. */
static struct rdma_event_channel *clients, *servers;

static bool is(const char *name, bool good)
{
	verdict(name, good, false, strerror(errno));
	return good;
}

/* The next event within so many milliseconds; the caller acknowledges it. */
static struct rdma_cm_event *next(struct rdma_event_channel *channel, int ms)
{
	struct pollfd fd = { .fd = channel->fd, .events = POLLIN };
	struct rdma_cm_event *event;

	return poll(&fd, 1, ms) == 1 && !rdma_get_cm_event(channel, &event) ? event : NULL;
}

/* The next event is of this type; its status goes to `status` where that is given. */
static bool told(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int ms, int *status)
{
	struct rdma_cm_event *event = next(channel, ms);
	bool good = event && event->event == type;

	if (!good)
		printf("not %s but %s\n", rdma_event_str(type), event ? rdma_event_str(event->event) : "nothing");
	if (event && status)
		*status = event->status;
	if (event)
		rdma_ack_cm_event(event);
	return good;
}

static inline bool comes(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	return told(channel, type, 5000, NULL);
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel, enum rdma_port_space space)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(channel, &id, NULL, space))
		die("rdma_create_id");
	return id;
}

static inline bool give_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {
		.qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC, .cap = { 8, 8, 1, 1, 64 }, .srq = id->srq,
	};

	return !rdma_create_qp(id, NULL, &init);
}

#endif
