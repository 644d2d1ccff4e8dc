// SPDX-License-Identifier: GPL-2.0
/*
 * Completion counters (UVERBS_OBJECT_COMP_CNTR) of a device that does not exist (../modules/fake_verbs.c), and that another
 * device has none.
 *
 *   uverbs_comp_cntr NODE fake|none
 */
#include "uverbs.h"

/* Younger than the headers of the system. */
enum { OBJECT_COMP_CNTR = 19, METHOD_QUERY_COMP_CNTR_CAPS = 8, METHOD_QP_ATTACH_COMP_CNTR = 2 };
enum { COMP_CNTR_CREATE, COMP_CNTR_DESTROY, COMP_CNTR_MODIFY, COMP_CNTR_READ };
enum { ENTRY_COMP, ENTRY_ERR };
enum { MODIFY_SET, MODIFY_INC };
enum { OP_SEND = 1, OP_RECV = 2, OP_READ = 4, ALL_OPS = 0x3f };
#define FAIL "/sys/module/fake_verbs/parameters/fail"

struct caps { uint32_t counters, ops; uint64_t value; };

static int query_caps(struct caps *caps)
{
	struct ib_uverbs_attr attrs[] = {
		data_out(0, &caps->counters, 4), data_out(1, &caps->value, 8), data_out(2, &caps->ops, 4),
	};

	return CALL(UVERBS_OBJECT_DEVICE, METHOD_QUERY_COMP_CNTR_CAPS, attrs);
}

static int create(uint32_t *counter)
{
	struct ib_uverbs_attr attrs[] = { handle(0, 0) };
	int error = CALL(OBJECT_COMP_CNTR, COMP_CNTR_CREATE, attrs);

	*counter = attrs[0].data;
	return error;
}

static int modify(uint32_t counter, uint64_t entry, uint64_t op, uint64_t value)
{
	struct ib_uverbs_attr attrs[] = { handle(0, counter), u64_in(1, entry), u64_in(2, op), u64_in(3, value) };

	return CALL(OBJECT_COMP_CNTR, COMP_CNTR_MODIFY, attrs);
}

static int read_counter(uint32_t counter, uint64_t entry, uint64_t *value)
{
	struct ib_uverbs_attr attrs[] = { handle(0, counter), u64_in(1, entry), data_out(2, value, sizeof(*value)) };

	return CALL(OBJECT_COMP_CNTR, COMP_CNTR_READ, attrs);
}

static int attach(uint32_t qp, uint32_t counter, uint32_t ops)
{
	struct ib_uverbs_attr attrs[] = { handle(0, qp), handle(1, counter), u32_in(2, ops) };

	return CALL(UVERBS_OBJECT_QP, METHOD_QP_ATTACH_COMP_CNTR, attrs);
}

static int destroy_counter(uint32_t counter) { return destroy(OBJECT_COMP_CNTR, COMP_CNTR_DESTROY, counter); }

static uint32_t create_cq(void)
{
	uint32_t room;
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_CREATE_CQ_HANDLE, 0), u32_in(UVERBS_ATTR_CREATE_CQ_CQE, 10),
		u64_in(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 1), u32_in(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 0),
		data_out(UVERBS_ATTR_CREATE_CQ_RESP_CQE, &room, sizeof(room)),
	};
	int error = CALL(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs);

	if (error)
		die("create a completion queue", error);
	return attrs[0].data;
}

static uint32_t create_qp(uint32_t pd, uint32_t cq)
{
	struct ib_uverbs_qp_cap cap = { 5, 5, 1, 1, 0 };
	uint32_t number;
	struct ib_uverbs_attr attrs[] = {
		handle(UVERBS_ATTR_CREATE_QP_HANDLE, 0), u64_in(UVERBS_ATTR_CREATE_QP_TYPE, IB_UVERBS_QPT_RC),
		data_in(UVERBS_ATTR_CREATE_QP_CAP, &cap, sizeof(cap)), u64_in(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 2),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap)),
		data_out(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, &number, sizeof(number)),
		handle(UVERBS_ATTR_CREATE_QP_PD_HANDLE, pd), handle(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, cq),
		handle(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, cq),
	};
	int error = CALL(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, attrs);

	if (error)
		die("create a queue pair", error);
	return attrs[0].data;
}

static int destroy_qp(uint32_t qp)
{
	uint32_t events;
	struct ib_uverbs_attr attrs[] = { handle(0, qp), data_out(1, &events, sizeof(events)) };

	return CALL(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, attrs);
}

/* Lets the driver not destroy objects of a kind. */
static void let_fail(const char *kind)
{
	FILE *file = fopen(FAIL, "w");

	if (!file || fputs(kind, file) < 0 || fclose(file))
		die(FAIL, errno);
}

static void values(uint32_t counter)
{
	uint64_t value = 0;

	expect("a value is set", 0, modify(counter, ENTRY_COMP, MODIFY_SET, 1ULL << 40));
	expect("a value is added to", 0, modify(counter, ENTRY_COMP, MODIFY_INC, 2));
	expect("the other value is set", 0, modify(counter, ENTRY_ERR, MODIFY_SET, 7));
	expect("a value is read", 0, read_counter(counter, ENTRY_COMP, &value));
	verdict("it is what was written", value == (1ULL << 40) + 2, "another value");
	expect("the other value is read", 0, read_counter(counter, ENTRY_ERR, &value));
	verdict("it is what was written there", value == 7, "another value");
	expect("the driver refuses a value", ERANGE, modify(counter, ENTRY_ERR + 1, MODIFY_SET, 1));
	expect("a number beyond 32 bits", EINVAL, modify(counter, 1ULL << 32, MODIFY_SET, 1));
	expect("no such counter", ENOENT, read_counter(UNKNOWN_HANDLE, ENTRY_COMP, &value));
}

static void uses(uint32_t counter, uint32_t other)
{
	uint32_t qp = create_qp(alloc_pd(), create_cq());
	uint64_t value = 0;

	expect("no operation", EINVAL, attach(qp, counter, 0));
	expect("an unknown operation", EINVAL, attach(qp, counter, ALL_OPS + 1));
	expect("the driver refuses an operation", EOPNOTSUPP, attach(qp, counter, OP_READ));
	expect("a counter of two operations", 0, attach(qp, counter, OP_SEND | OP_RECV));
	expect("one of them has a counter already", EBUSY, attach(qp, other, OP_RECV));
	expect("the counter knows the operations", 0, read_counter(counter, ENTRY_ERR, &value));
	verdict("as the driver was told", value == (OP_SEND | OP_RECV), "others");
	expect("a counter in use stays", EBUSY, destroy_counter(counter));
	expect("one that was refused is not in use", 0, destroy_counter(other));
	expect("the queue pair is destroyed", 0, destroy_qp(qp));
	let_fail("comp_cntr");
	expect("it stays if the driver fails", EDEADLK, destroy_counter(counter));
	let_fail("none");
	expect("the counter is destroyed", 0, destroy_counter(counter));
	expect("it is destroyed once", ENOENT, destroy_counter(counter));
}

int main(int argc, char **argv)
{
	struct caps caps = { 0 };
	uint32_t counter, other;

	if (argc != 3)
		return 2;
	driver_id = strcmp(argv[2], "none") ? RDMA_DRIVER_UNKNOWN : RDMA_DRIVER_RXE;
	open_context(argv[1]);
	if (!strcmp(argv[2], "none")) {
		expect("no capabilities", EOPNOTSUPP, query_caps(&caps));
		expect("no counters", EPROTONOSUPPORT, create(&counter));
		expect("none to attach", EPROTONOSUPPORT, attach(1, 1, OP_SEND));
		return all_done();
	}
	expect("capabilities", 0, query_caps(&caps));
	verdict("they are the driver's", caps.counters == 9 && caps.value == 1ULL << 60 && caps.ops == (OP_SEND | OP_RECV), "others");
	expect("a counter", 0, create(&counter));
	expect("another one", 0, create(&other));
	values(counter);
	uses(counter, other);
	/* The file's end destroys it. */
	expect("a counter that is left", 0, create(&counter));
	return all_done();
}
