// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows of both types: binding, bounds, rights, association, invalidation from here and from there.
 *
 *   verbs_mw DEVICE GID_INDEX
 */
#include "verbs.h"

#define WINDOW_AT 8192
#define WINDOW 4096
#define RW (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* B's memory has no remote rights of its own. */
static struct ibv_mr *region;
static struct end a, b;

static struct ibv_mr *register_region(int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, b.buffer, BUFFER, access);

	if (!mr)
		die("register a region for windows");
	return mr;
}

static void setup(void)
{
	static const struct setup rc = { 0 };

	pair_init(&a, &b, &rc);
	region = register_region(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
}

/* New QPs, after an error. */
static void again(void)
{
	end_destroy(&a);
	ibv_dereg_mr(region);
	end_destroy(&b);
	setup();
}

static struct ibv_mw *alloc(enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, type);

	if (!mw)
		die("allocate a window");
	return mw;
}

/* Posts a bind request on B and returns its status; on success the window has its new key. */
static int bind(struct ibv_mw *mw, struct ibv_mr *mr, uint64_t addr, uint64_t length, int access)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;

	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ mr, addr, length, access };
	if (post(&b, &wr))
		return -2;
	wc = wait_wc(&b, 3000);
	if (!wc.status) {
		if (wc.opcode != IBV_WC_BIND_MW)
			return -3;
		mw->rkey = wr.bind_mw.rkey;
	}
	return wc.status;
}

static int bind_usual(struct ibv_mw *mw, int access)
{
	return bind(mw, region, (uintptr_t)b.buffer + WINDOW_AT, WINDOW, access);
}

/* A's operation on B's memory, from the begin of the window; returns its status. */
static int use(uint32_t rkey, enum ibv_wr_opcode opcode, int64_t at, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)a.buffer, length, a.mr->lkey };
	struct ibv_send_wr wr = request_at(opcode, &sge, (uintptr_t)b.buffer + WINDOW_AT + at, rkey);

	return post(&a, &wr) ? -2 : (int)wait_wc(&a, 3000).status;
}

static void is(const char *name, int wanted, int got, bool known)
{
	char why[80];

	snprintf(why, sizeof(why), "wanted %d, got %d", wanted, got);
	verdict(name, wanted == got, known, why);
	if (got)
		again();
}

/* The operations that a window allows, and those that it does not; `name` tells which type. */
static void uses(const char *name, enum ibv_mw_type type)
{
	static const struct {
		const char *what;
		int access;
		enum ibv_wr_opcode opcode;
		int64_t at;
		uint32_t length;
		int status;
		bool known;
	} table[] = {
		{ "write all of it", RW, IBV_WR_RDMA_WRITE, 0, WINDOW, 0 },
		{ "read all of it", RW, IBV_WR_RDMA_READ, 0, WINDOW, 0 },
		{ "write its last byte", RW, IBV_WR_RDMA_WRITE, WINDOW - 1, 1, 0 },
		{ "atomic", IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8, 0 },
		{ "write one byte before", RW, IBV_WR_RDMA_WRITE, -1, 10, IBV_WC_REM_ACCESS_ERR, true },
		{ "write one byte too far", RW, IBV_WR_RDMA_WRITE, WINDOW - 9, 10, IBV_WC_REM_ACCESS_ERR, true },
		{ "read one byte too far", RW, IBV_WR_RDMA_READ, WINDOW - 9, 10, IBV_WC_REM_ACCESS_ERR, true },
		{ "write without the right", IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_WRITE, 0, 10, IBV_WC_REM_ACCESS_ERR },
		{ "read without the right", IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_READ, 0, 10, IBV_WC_REM_ACCESS_ERR },
		{ "atomic without the right", RW, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, IBV_WC_REM_ACCESS_ERR },
	};

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct ibv_mw *mw = alloc(type);
		char title[80];
		int status = bind_usual(mw, table[i].access);

		snprintf(title, sizeof(title), "%s: %s", name, table[i].what);
		if (status) {
			is(title, table[i].status, status, false);
		} else {
			memset(a.buffer, 0x30 + i, WINDOW);
			status = use(mw->rkey, table[i].opcode, table[i].at, table[i].length);
			if (!status && table[i].opcode == IBV_WR_RDMA_WRITE &&
			    memcmp(a.buffer, b.buffer + WINDOW_AT + table[i].at, table[i].length))
				status = -5;
			ibv_dealloc_mw(mw);
			mw = NULL;
			is(title, table[i].status, status, table[i].known);
		}
		if (mw)
			ibv_dealloc_mw(mw);
	}
}

/* A bind that must fail with MW_BIND_ERR. */
static void no_bind(const char *name, enum ibv_mw_type type, uint64_t shift, uint64_t length, int access, int mr_access, bool known)
{
	struct ibv_mr *mr = register_region(mr_access);
	struct ibv_mw *mw = alloc(type);
	int status = bind(mw, mr, (uintptr_t)b.buffer + shift, length, access);

	ibv_dealloc_mw(mw);
	ibv_dereg_mr(mr);
	is(name, IBV_WC_MW_BIND_ERR, status, known);
}

static void binds(void)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;

	no_bind("no bind beyond the region", IBV_MW_TYPE_2, BUFFER - 99, 100, RW, all, true);
	no_bind("no bind before the region", IBV_MW_TYPE_2, -1, 100, RW, all, true);
	no_bind("no bind of a length that wraps", IBV_MW_TYPE_2, 100, UINT64_MAX - 50, RW, all, true);
	no_bind("no bind without MW_BIND", IBV_MW_TYPE_2, 0, 100, RW, IBV_ACCESS_LOCAL_WRITE, true);
	no_bind("no writable window on memory that is not", IBV_MW_TYPE_2, 0, 100, RW, IBV_ACCESS_MW_BIND, true);
	no_bind("no empty window of type 2", IBV_MW_TYPE_2, 0, 0, RW, all, true);
}

static void zero_based(void)
{
	struct ibv_mw *mw = alloc(IBV_MW_TYPE_2);
	int status = bind_usual(mw, RW | IBV_ACCESS_ZERO_BASED);
	int64_t to_zero = -(int64_t)((uintptr_t)b.buffer + WINDOW_AT);

	memset(a.buffer, 0x55, WINDOW);
	status = status ? status : use(mw->rkey, IBV_WR_RDMA_WRITE, to_zero + 100, 200);
	if (!status && memcmp(a.buffer, b.buffer + WINDOW_AT + 100, 200))
		status = -5;
	is("zero based: addresses count from the begin", 0, status, false);
	status = use(mw->rkey, IBV_WR_RDMA_WRITE, to_zero + WINDOW - 9, 10);
	ibv_dealloc_mw(mw);
	is("zero based: one byte too far", IBV_WC_REM_ACCESS_ERR, status, true);
}

static void rebind(void)
{
	struct ibv_mw *mw = alloc(IBV_MW_TYPE_1);
	struct ibv_mw_bind info = { .wr_id = 3, .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { region, (uintptr_t)b.buffer + WINDOW_AT, WINDOW, RW } };
	uint32_t first;
	int status, error;

	is("type 1: not bound", IBV_WC_REM_ACCESS_ERR, use(mw->rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
	info.bind_info.mr = region;
	info.bind_info.addr = (uintptr_t)b.buffer + WINDOW_AT;
	is("type 1: ibv_bind_mw", 0, ibv_bind_mw(b.qp, mw, &info), false);
	is("type 1: its completion", 0, wait_wc(&b, 3000).status, false);
	first = mw->rkey;
	is("type 1: bound", 0, use(first, IBV_WR_RDMA_WRITE, 0, 10), false);
	error = ibv_dereg_mr(region);
	verdict("dereg_mr while a window is bound", error == EBUSY, error, strerror(error));
	is("type 1: which stays bound", 0, use(first, IBV_WR_RDMA_WRITE, 0, 10), false);
	is("type 1: bound again", 0, ibv_bind_mw(b.qp, mw, &info) ? -2 : (int)wait_wc(&b, 3000).status, false);
	is("type 1: the new key", 0, use(mw->rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
	info.bind_info.length = 0;
	is("type 1: bound to nothing", 0, ibv_bind_mw(b.qp, mw, &info) ? -2 : (int)wait_wc(&b, 3000).status, false);
	status = use(mw->rkey, IBV_WR_RDMA_WRITE, 0, 10);
	verdict("dereg_mr works then", !ibv_dereg_mr(region), false, "refused");
	region = register_region(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	ibv_dealloc_mw(mw);
	is("type 1: nothing is not accessible", IBV_WC_REM_ACCESS_ERR, status, false);
	verdict("a new key for each bind", first != mw->rkey, false, "the same");
}

/* The owner of B's memory writes from it. */
static int write_from(uint32_t lkey)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = request(&b, &a, IBV_WR_RDMA_WRITE, &sge);

	sge.length = 10;
	sge.lkey = lkey;
	return post(&b, &wr) ? -2 : (int)wait_wc(&b, 3000).status;
}

/* The keys of a region that was deregistered. */
static void stale_keys(void)
{
	struct ibv_mr *mr = register_region(ACCESS_ALL);
	uint32_t lkey = mr->lkey, rkey = mr->rkey;

	is("a region: written to by the peer", 0, use(rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
	is("a region: written from by its owner", 0, write_from(lkey), false);
	is("a region: dereg_mr", 0, ibv_dereg_mr(mr), false);
	is("a region: its remote key is stale", IBV_WC_REM_ACCESS_ERR, use(rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
	is("a region: so is its local one", IBV_WC_LOC_PROT_ERR, write_from(lkey), true);
}

static void old_key(void)
{
	struct ibv_mw *mw = alloc(IBV_MW_TYPE_1);
	struct ibv_mw_bind info = { .send_flags = IBV_SEND_SIGNALED,
		.bind_info = { region, (uintptr_t)b.buffer + WINDOW_AT, WINDOW, RW } };
	uint32_t first;
	int status;

	ibv_bind_mw(b.qp, mw, &info);
	wait_wc(&b, 3000);
	first = mw->rkey;
	ibv_bind_mw(b.qp, mw, &info);
	wait_wc(&b, 3000);
	status = use(first, IBV_WR_RDMA_WRITE, 0, 10);
	ibv_dealloc_mw(mw);
	is("type 1: an old key is dead", IBV_WC_REM_ACCESS_ERR, status, false);
}

static int local_invalidate(struct end *end, uint32_t rkey)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey };

	return post(end, &wr) ? -2 : (int)wait_wc(end, 3000).status;
}

static void invalidation(void)
{
	struct ibv_mw *mw = alloc(IBV_MW_TYPE_2);
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	uint32_t rkey;
	char why[120];
	int status;

	is("type 2: bound", 0, bind_usual(mw, RW), false);
	is("type 2: LOCAL_INV", 0, local_invalidate(&b, mw->rkey), false);
	is("type 2: bound again after it", 0, bind_usual(mw, RW), false);
	wr = request(&a, &b, IBV_WR_SEND_WITH_INV, &sge);
	sge.length = 4;
	wr.invalidate_rkey = mw->rkey;
	post_receive(&b, 9, 0, 100);
	post(&a, &wr);
	is("type 2: SEND with invalidate", 0, wait_wc(&a, 3000).status, false);
	wc = wait_wc(&b, 3000);
	snprintf(why, sizeof(why), "status %d, id %lu, flags %x, key %x, not %x", wc.status, wc.wr_id, wc.wc_flags, wc.invalidated_rkey,
		 mw->rkey);
	verdict("type 2: the receiver is told", !wc.status && wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == mw->rkey, true, why);
	is("type 2: an invalidated key is dead", IBV_WC_REM_ACCESS_ERR, use(mw->rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
	is("type 2: bound a third time", 0, bind_usual(mw, RW), false);
	status = bind_usual(mw, RW);
	ibv_dealloc_mw(mw);
	is("type 2: no bind while it is bound", IBV_WC_MW_BIND_ERR, status, true);

	mw = alloc(IBV_MW_TYPE_1);
	bind_usual(mw, RW);
	status = local_invalidate(&b, mw->rkey);
	ibv_dealloc_mw(mw);
	is("type 1: LOCAL_INV is refused", IBV_WC_LOC_QP_OP_ERR, status, true);

	mw = alloc(IBV_MW_TYPE_2);
	bind_usual(mw, RW);
	rkey = mw->rkey;
	ibv_dealloc_mw(mw);
	is("a key is dead after dealloc_mw", IBV_WC_REM_ACCESS_ERR, use(rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
}

/* A window of type 2 that another QP has bound. */
static void association(void)
{
	static const struct setup rc = { 0 };
	struct end c, d, kept;
	struct ibv_mw *one = alloc(IBV_MW_TYPE_2), *other = alloc(IBV_MW_TYPE_1);
	int status;

	pair_init(&c, &d, &rc);
	kept = b;
	b = d;
	b.buffer = kept.buffer;
	bind_usual(one, RW);
	bind_usual(other, RW);
	b = kept;
	is("type 1: the window of another QP", 0, use(other->rkey, IBV_WR_RDMA_WRITE, 0, 10), false);
	status = use(one->rkey, IBV_WR_RDMA_WRITE, 0, 10);
	ibv_dealloc_mw(one);
	ibv_dealloc_mw(other);
	end_destroy(&c);
	end_destroy(&d);
	is("type 2: the window of another QP", IBV_WC_REM_ACCESS_ERR, status, false);
}

/* Three windows with different rights on the same bytes; each is used by one operation, then all are made anew. */
static void overlapping(void)
{
	static const struct { const char *name; int access; enum ibv_wr_opcode allowed; } windows[] = {
		{ "read", IBV_ACCESS_REMOTE_READ, IBV_WR_RDMA_READ }, { "write", IBV_ACCESS_REMOTE_WRITE, IBV_WR_RDMA_WRITE },
		{ "atomic", IBV_ACCESS_REMOTE_ATOMIC, IBV_WR_ATOMIC_FETCH_AND_ADD },
	};

	for (int i = 0; i < 9; i++) {
		int through = i / 3, what = i % 3, bound = 0, status;
		struct ibv_mw *mw[3];
		char name[80];

		for (int k = 0; k < 3; k++) {
			mw[k] = alloc(IBV_MW_TYPE_2);
			bound += !bind_usual(mw[k], windows[k].access);
		}
		status = use(mw[through]->rkey, windows[what].allowed, 0, 8);
		for (int k = 0; k < 3; k++)
			ibv_dealloc_mw(mw[k]);
		snprintf(name, sizeof(name), "overlapping windows: %s through that of %s", windows[what].name, windows[through].name);
		is(name, through == what ? 0 : IBV_WC_REM_ACCESS_ERR, bound == 3 ? status : -4, false);
	}
}

/* A window is bound by a queue pair of a reliable or unreliable connection; of datagrams it is not. */
static void services(void)
{
	static const struct { const char *name; enum ibv_qp_type type; bool binds; } t[] = {
		{ "bind on RC", IBV_QPT_RC, true }, { "bind on UC", IBV_QPT_UC, true }, { "bind on UD", IBV_QPT_UD, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct setup setup = { .type = t[i].type };
		struct ibv_mw *mw = alloc(IBV_MW_TYPE_2);
		struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
		struct ibv_wc wc = { .status = -2 };
		struct end c, d;
		char why[64];
		bool refused;

		pair_init(&c, &d, &setup);
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ region, (uintptr_t)b.buffer, WINDOW, IBV_ACCESS_REMOTE_WRITE };
		refused = post(&c, &wr);
		if (!refused)
			wc = wait_wc(&c, 3000);
		snprintf(why, sizeof(why), "%s, status %d", refused ? "refused" : "posted", wc.status);
		verdict(t[i].name, t[i].binds ? !refused && !wc.status : refused || wc.status == IBV_WC_LOC_QP_OP_ERR, !t[i].binds, why);
		ibv_dealloc_mw(mw);
		end_destroy(&c);
		end_destroy(&d);
	}
}

int main(int argc, char **argv)
{
	struct ibv_device_attr attr;

	open_device(argc, argv);
	ibv_query_device(context, &attr);
	verdict("the device has windows", attr.max_mw > 0 && attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW &&
		attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B, false, "attributes");
	setup();
	uses("type 1", IBV_MW_TYPE_1);
	uses("type 2", IBV_MW_TYPE_2);
	binds();
	zero_based();
	rebind();
	stale_keys();
	old_key();
	invalidation();
	overlapping();
	services();
	association();
	end_destroy(&a);
	ibv_dereg_mr(region);
	end_destroy(&b);
	return all_done();
}
