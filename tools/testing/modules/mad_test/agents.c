// SPDX-License-Identifier: GPL-2.0
/* Which agents may be registered for which classes and methods, and functions that are tables. */
#include "mad_test.h"

static void no_send(struct ib_mad_agent *agent, struct ib_mad_send_wc *wc)
{
}

static void no_receive(struct ib_mad_agent *agent, struct ib_mad_send_buf *send, struct ib_mad_recv_wc *mad)
{
	ib_free_recv_mad(mad);
}

/* A registration with everything given. */
static int try_on(struct ib_device *device, u32 port, enum ib_qp_type type, struct ib_mad_reg_req *req, u8 rmpp,
		  ib_mad_send_handler send, ib_mad_recv_handler receive, u32 flags)
{
	struct ib_mad_agent *agent = ib_register_mad_agent(device, port, type, req, rmpp, send, receive, NULL, flags);

	if (IS_ERR(agent))
		return PTR_ERR(agent);
	ib_unregister_mad_agent(agent);
	return 0;
}

#define GSI IB_QPT_GSI
#define SMI IB_QPT_SMI
#define ANY MT_METHODS(0x7f)

/* One port and one method; what is asked for, and the answer. */
static const struct {
	const char *name;
	enum ib_qp_type type;
	u8 class, version, rmpp;
	u32 oui;
	int error;
} registrations[] = {
	{ "class and version of vendors", GSI, 0x09, 1, 0, 0, 0 },
	{ "the greatest class version", GSI, 0x09, 0x82, 0, 0, 0 },
	{ "class version 0", GSI, 0x09, 0, 0, 0, 0 },
	{ "a class with RMPP and an OUI", GSI, 0x30, 1, 1, 0x001405, 0 },
	{ "without RMPP", GSI, 0x30, 1, 0, 0x001405, 0 },
	{ "the last class with an OUI", GSI, 0x4f, 1, 1, 1, 0 },
	{ "the last OUI", GSI, 0x4f, 1, 1, 0xffffff, 0 },
	{ "subnet administration with RMPP", GSI, IB_MGMT_CLASS_SUBN_ADM, 2, 1, 0, 0 },
	{ "subnet management", SMI, IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, 0, 0, 0 },
	{ "with a directed route", SMI, IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, 1, 0, 0, 0 },
	{ "a class without OUI needs none", GSI, 0x0f, 1, 0, 0, 0 },
	{ "a queue pair of type RC", IB_QPT_RC, 0x09, 1, 0, 0, -EINVAL },
	{ "of type UD", IB_QPT_UD, 0x09, 1, 0, 0, -EINVAL },
	{ "of type raw packet", IB_QPT_RAW_PACKET, 0x09, 1, 0, 0, -EINVAL },
	{ "RMPP version 2", GSI, 0x30, 1, 2, 1, -EINVAL },
	{ "RMPP version 255", GSI, 0x30, 1, 255, 1, -EINVAL },
	{ "class version 0x83", GSI, 0x09, 0x83, 0, 0, -EINVAL },
	{ "class version 0xff", GSI, 0x09, 0xff, 0, 0, -EINVAL },
	{ "class 0", GSI, 0, 1, 0, 0, -EINVAL },
	{ "class 0 of QP0", SMI, 0, 1, 0, 0, -EINVAL },
	{ "class 80", GSI, 80, 1, 0, 0, -EINVAL },
	{ "class 0x80", GSI, 0x80, 1, 0, 0, -EINVAL },
	{ "class 0xff", GSI, 0xff, 1, 0, 0, -EINVAL },
	{ "no OUI", GSI, 0x30, 1, 1, 0, -EINVAL },
	{ "no OUI of the last class with one", GSI, 0x4f, 1, 0, 0, -EINVAL },
	{ "RMPP of a class without it", GSI, 0x09, 1, 1, 0, -EINVAL },
	{ "RMPP of performance management", GSI, IB_MGMT_CLASS_PERF_MGMT, 1, 1, 0, -EINVAL },
	{ "RMPP of connection management", GSI, IB_MGMT_CLASS_CM, 2, 1, 0, -EINVAL },
	{ "RMPP of subnet management", SMI, IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, 1, 0, -EINVAL },
	{ "a class of QP1 on QP0", SMI, IB_MGMT_CLASS_SUBN_ADM, 2, 0, 0, -EINVAL },
	{ "a class of vendors on QP0", SMI, 0x30, 1, 0, 1, -EINVAL },
	{ "subnet management on QP1", GSI, IB_MGMT_CLASS_SUBN_LID_ROUTED, 1, 0, 0, -EINVAL },
	{ "a directed route on QP1", GSI, IB_MGMT_CLASS_SUBN_DIRECTED_ROUTE, 1, 0, 0, -EINVAL },
};

static void test_registrations(void)
{
	int nth;

	for (nth = 0; nth < ARRAY_SIZE(registrations); nth++) {
		struct mt_request wanted = {
			.port = 1, .type = registrations[nth].type, .class = registrations[nth].class,
			.version = registrations[nth].version, .oui = registrations[nth].oui,
			.rmpp = registrations[nth].rmpp, .methods = ANY,
		};

		CHECK_EQ(registrations[nth].error, mt_try(&wanted), "%s", registrations[nth].name);
	}
}

static void test_handlers(void)
{
	struct ib_mad_reg_req req;
	u32 user = IB_MAD_USER_RMPP;

	mt_fill_request(&req, &(struct mt_request){ .class = MT_OUI_CLASS, .version = 1, .oui = 5, .methods = ANY });
	CHECK_EQ(-EINVAL, try_on(mt_device, 1, GSI, &req, 1, no_send, NULL, 0), "a class without a receive handler");
	CHECK_EQ(0, try_on(mt_device, 1, GSI, &req, 1, NULL, no_receive, 0), "a class without a send handler");
	CHECK_EQ(0, try_on(mt_device, 1, GSI, &req, 1, no_send, no_receive, user), "RMPP of the user");
	CHECK_EQ(-EINVAL, try_on(mt_device, 1, GSI, NULL, 0, NULL, no_receive, 0), "no class and no send handler");
	CHECK_EQ(-EINVAL, try_on(mt_device, 1, GSI, NULL, 1, no_send, no_receive, user), "no class and RMPP of the user");
	CHECK_EQ(0, try_on(mt_device, 1, GSI, NULL, 0, no_send, NULL, 0), "no class and no receive handler");
	CHECK_EQ(0, try_on(mt_device, 1, GSI, NULL, 1, no_send, no_receive, 0), "no class and RMPP");
	CHECK_EQ(0, try_on(mt_device, 1, SMI, NULL, 0, no_send, no_receive, 0), "no class, on QP0");
}

static void test_ports(void)
{
	CHECK_EQ(-EPROTONOSUPPORT, mt_try(&MT_SEND_ONLY(0)), "port 0 of a device that has none");
	CHECK_EQ(0, mt_try(&MT_SEND_ONLY(1)), "port 1");
	CHECK_EQ(0, mt_try(&MT_SEND_ONLY(2)), "port 2");
	/* The stock core reads behind its table of ports. */
	if (mt_strict)
		CHECK(mt_try(&MT_SEND_ONLY(3)) < 0, "a port that there is not");
	if (!mt_roce)
		return;
	CHECK_EQ(-EPROTONOSUPPORT, try_on(mt_roce, 1, SMI, NULL, 0, no_send, no_receive, 0), "QP0 of a RoCE port");
	CHECK_EQ(0, try_on(mt_roce, 1, GSI, NULL, 0, no_send, no_receive, 0), "QP1 of a RoCE port");
}

/* An agent has a class: which others may be registered beside it, and which after it? */
static void test_overlap(void)
{
	struct mt_request first = { .port = 1, .type = GSI, .class = MT_CLASS, .version = 1, .methods = MT_METHODS(1, 2, 5) };
	struct mt_request second = first;
	struct mt_agent agent;

	if (mt_open(&agent, &first))
		return;
	CHECK_EQ(-EINVAL, mt_try(&second), "the same methods once more");
	second.methods = MT_METHODS(3, 5);
	CHECK_EQ(-EINVAL, mt_try(&second), "one of them");
	second.methods = MT_METHODS(3, 6, 127);
	CHECK_EQ(0, mt_try(&second), "other methods");
	CHECK_EQ(0, mt_try(&second), "other methods, which are free again");
	second.methods = MT_METHODS(0);
	CHECK_EQ(0, mt_try(&second), "no method");
	second.methods = first.methods;
	second.version = 2;
	CHECK_EQ(0, mt_try(&second), "another class version");
	second.version = 1;
	second.class = MT_CLASS + 1;
	CHECK_EQ(0, mt_try(&second), "another class");
	second.class = MT_CLASS;
	second.port = 2;
	CHECK_EQ(0, mt_try(&second), "another port");
	mt_close(&agent);
	CHECK_EQ(0, mt_try(&first), "all of it is free afterwards");
}

static void test_ouis(void)
{
	struct mt_request wanted = { .port = 1, .type = GSI, .class = MT_OUI_CLASS + 1, .version = 1, .rmpp = 1,
				     .methods = MT_METHODS(1, 2) };
	struct mt_agent agents[8];
	int nth, opened = 0;

	for (nth = 0; nth < ARRAY_SIZE(agents); nth++) {
		wanted.oui = 0x100 + nth;
		if (!mt_open(&agents[nth], &wanted))
			opened++;
	}
	CHECK_EQ(8, opened, "eight OUIs of a class");
	CHECK_EQ(-EINVAL, mt_try(&wanted), "one of them with the same methods");
	wanted.methods = MT_METHODS(3);
	CHECK_EQ(0, mt_try(&wanted), "with others");
	wanted.oui = 0x200;
	CHECK_EQ(-ENOMEM, mt_try(&wanted), "the ninth OUI");
	wanted.class++;
	CHECK_EQ(0, mt_try(&wanted), "an OUI of another class");
	wanted.class--;
	wanted.version = 2;
	CHECK_EQ(0, mt_try(&wanted), "of another version");
	wanted.version = 1;
	mt_close(&agents[3]);
	CHECK_EQ(0, mt_open(&agents[3], &wanted), "an OUI in place of one that has gone");
	for (nth = 0; nth < ARRAY_SIZE(agents); nth++)
		mt_close(&agents[nth]);
	wanted.oui = 0x300;
	CHECK_EQ(0, mt_try(&wanted), "an OUI after all have gone");
}

static void test_fields(void)
{
	struct mt_request wanted = { .port = 2, .type = GSI, .class = MT_OUI_CLASS, .version = 1, .oui = 7, .rmpp = 1,
				     .methods = ANY };
	struct mt_agent agents[16];
	u32 nth, other, equal = 0, great = 0;

	if (mt_open(&agents[0], &wanted))
		return;
	CHECK(agents[0].agent->device == mt_device, "an agent tells its device");
	CHECK_EQ(2, agents[0].agent->port_num, "its port");
	CHECK_EQ(1, agents[0].agent->qp->qp_num, "its queue pair");
	CHECK_EQ(1, agents[0].agent->rmpp_version, "its version of RMPP");
	CHECK(agents[0].agent->context == &agents[0], "its context");
	CHECK_EQ(1, ib_mad_kernel_rmpp_agent(agents[0].agent), "RMPP is the kernel's");
	mt_close(&agents[0]);
	wanted.flags = IB_MAD_USER_RMPP;
	if (mt_open(&agents[0], &wanted))
		return;
	CHECK_EQ(IB_MAD_USER_RMPP, agents[0].agent->flags, "its flags");
	CHECK_EQ(0, ib_mad_kernel_rmpp_agent(agents[0].agent), "RMPP is the user's");
	mt_close(&agents[0]);
	for (nth = 0; nth < ARRAY_SIZE(agents); nth++)
		if (mt_open(&agents[nth], &MT_SEND_ONLY(1 + nth % 2)))
			return;
	CHECK_EQ(0, ib_mad_kernel_rmpp_agent(agents[0].agent), "there is none");
	for (nth = 0; nth < ARRAY_SIZE(agents); nth++) {
		great += agents[nth].agent->hi_tid >= 1 << 24;
		for (other = 0; other < nth; other++)
			equal += agents[nth].agent->hi_tid == agents[other].agent->hi_tid;
	}
	CHECK_EQ(0, equal, "each agent has its own half of transaction numbers");
	CHECK_EQ(0, great, "of three bytes");
	for (nth = 0; nth < ARRAY_SIZE(agents); nth++)
		mt_close(&agents[nth]);
}

void mt_test_agents(void)
{
	MT_CASE(test_registrations());
	MT_CASE(test_handlers());
	MT_CASE(test_ports());
	MT_CASE(test_overlap());
	MT_CASE(test_ouis());
	MT_CASE(test_fields());
}

/* Functions that are tables */

static bool has_rmpp(int class)
{
	return class == 0x03 || class == 0x06 || class == 0x10 || class == 0x12 || (class >= 0x30 && class <= 0x4f);
}

static int data_offset(int class)
{
	if (class == 0x03)
		return 56;
	if (class == 0x06 || class == 0x10 || class == 0x12)
		return 64;
	return class >= 0x30 && class <= 0x4f ? 40 : 24;
}

static void test_classes(void)
{
	int class, wrong_rmpp = 0, wrong_offset = 0;

	for (class = 0; class < 256; class++) {
		wrong_rmpp += ib_is_mad_class_rmpp(class) != has_rmpp(class);
		wrong_offset += ib_get_mad_data_offset(class) != data_offset(class);
	}
	CHECK_EQ(0, wrong_rmpp, "the classes with RMPP");
	CHECK_EQ(0, wrong_offset, "where the data of each class begins");
}

static void test_responses(void)
{
	struct ib_mad_hdr header;
	int class, method, modifier, wrong = 0;

	for (class = 0; class < 256; class++) {
		for (method = 0; method < 256; method++) {
			for (modifier = 0; modifier < 4; modifier++) {
				bool is = method >= 0x80 || method == 7 || (class == IB_MGMT_CLASS_BM && (modifier & 1));

				memset(&header, 0, sizeof(header));
				header.mgmt_class = class;
				header.method = method;
				header.attr_mod = cpu_to_be32(modifier);
				wrong += !!ib_response_mad(&header) != is;
			}
		}
	}
	CHECK_EQ(0, wrong, "what is a response");
}

/* What may be made, and what it looks like: rmpp 0: an agent without, 1: of the kernel, 2: of the user. */
static const struct {
	int rmpp, active, header, data;
	int error;
	int segments, segment_size;
} lengths[] = {
	{ 0, 0, 24, 232, 0, 0, 0 },
	{ 0, 0, 24, 0, 0, 0, 0 },
	{ 0, 0, 24, 1, 0, 0, 0 },
	{ 0, 0, 256, 0, 0, 0, 0 },
	{ 0, 0, 64, 192, 0, 0, 0 },
	{ 0, 0, 24, 233, -EINVAL, 0, 0 },
	{ 0, 0, 64, 193, -EINVAL, 0, 0 },
	{ 0, 1, 40, 216, -EINVAL, 0, 0 },
	{ 1, 0, 40, 216, 0, 0, 0 },
	{ 1, 0, 40, 217, -EINVAL, 0, 0 },
	{ 1, 1, 40, 0, 0, 1, 216 },
	{ 1, 1, 40, 1, 0, 1, 216 },
	{ 1, 1, 40, 216, 0, 1, 216 },
	{ 1, 1, 40, 217, 0, 2, 216 },
	{ 1, 1, 56, 200, 0, 1, 200 },
	{ 1, 1, 56, 2001, 0, 11, 200 },
	{ 1, 1, 64, 192 * 300, 0, 300, 192 },
	{ 2, 0, 40, 216, 0, 0, 0 },
	{ 2, 0, 40, 217, -EINVAL, 0, 0 },
	{ 2, 1, 40, 216, -EINVAL, 0, 0 },
};

static bool is_zero(const void *bytes, size_t length)
{
	return !memchr_inv(bytes, 0, length);
}

static void check_buffer(struct ib_mad_send_buf *send, int nth)
{
	int header = lengths[nth].header, data = lengths[nth].data, segment;
	u8 *last;

	CHECK(send->hdr_len == header && send->data_len == data, "lengths of a datagram with %d + %d bytes", header, data);
	if (!lengths[nth].active) {
		CHECK(!send->seg_count && is_zero(send->mad, IB_MGMT_MAD_SIZE), "it is empty");
		return;
	}
	CHECK_EQ(lengths[nth].segments, send->seg_count, "segments of %d bytes", data);
	CHECK_EQ(lengths[nth].segment_size, send->seg_size, "the size of a segment behind %d bytes", header);
	CHECK_EQ(IB_MGMT_RMPP_DATA, send->seg_rmpp_size, "its size for RMPP");
	/* Each can be asked for, in any order, and is another one. */
	for (segment = 1; segment <= send->seg_count; segment++)
		memset(ib_get_rmpp_segment(send, segment), segment, data < send->seg_size ? data : 1);
	CHECK_EQ(1 & (data > 0), *(u8 *)ib_get_rmpp_segment(send, 1), "the first segment");
	last = ib_get_rmpp_segment(send, send->seg_count);
	CHECK_EQ(data ? (u8)send->seg_count : 0, *last, "the last one");
	if (data % send->seg_size)
		CHECK(is_zero(last + data % send->seg_size, send->seg_size - data % send->seg_size),
		      "what is behind its end is empty");
}

static void test_lengths(void)
{
	struct mt_request wanted = { .port = 1, .type = GSI, .class = MT_OUI_CLASS, .version = 1, .oui = 9, .methods = ANY };
	struct ib_mad_send_buf *send;
	struct mt_agent agents[3];
	int nth;

	for (nth = 0; nth < 3; nth++) {
		wanted.oui++;
		wanted.rmpp = nth > 0;
		wanted.flags = nth == 2 ? IB_MAD_USER_RMPP : 0;
		if (mt_open(&agents[nth], &wanted))
			return;
	}
	for (nth = 0; nth < ARRAY_SIZE(lengths); nth++) {
		send = ib_create_send_mad(agents[lengths[nth].rmpp].agent, 1, 0, lengths[nth].active, lengths[nth].header,
					  lengths[nth].data, GFP_KERNEL, IB_MGMT_BASE_VERSION);
		CHECK_EQ(lengths[nth].error, PTR_ERR_OR_ZERO(send), "a datagram of %d + %d bytes, agent %d, RMPP %d",
			 lengths[nth].header, lengths[nth].data, lengths[nth].rmpp, lengths[nth].active);
		if (IS_ERR(send))
			continue;
		CHECK(send->mad_agent == agents[lengths[nth].rmpp].agent, "it knows its agent");
		check_buffer(send, nth);
		ib_free_send_mad(send);
	}
	for (nth = 0; nth < 3; nth++)
		mt_close(&agents[nth]);
}

static void test_rmpp_header(void)
{
	struct mt_request wanted = { .port = 1, .type = GSI, .class = MT_OUI_CLASS, .version = 1, .oui = 9, .rmpp = 1,
				     .methods = ANY };
	struct ib_mad_send_buf *send;
	struct ib_rmpp_mad *mad;
	struct mt_agent agent;

	if (mt_open(&agent, &wanted))
		return;
	send = ib_create_send_mad(agent.agent, 1, 0, 1, IB_MGMT_VENDOR_HDR, 500, GFP_KERNEL, IB_MGMT_BASE_VERSION);
	if (!IS_ERR(send)) {
		mad = send->mad;
		CHECK_EQ(1, mad->rmpp_hdr.rmpp_version, "the version of RMPP stands in the header");
		CHECK_EQ(IB_MGMT_RMPP_TYPE_DATA, mad->rmpp_hdr.rmpp_type, "its type");
		CHECK_EQ(IB_MGMT_RMPP_FLAG_ACTIVE, ib_get_rmpp_flags(&mad->rmpp_hdr), "its flags");
		ib_free_send_mad(send);
	}
	mt_close(&agent);
}

void mt_test_tables(void)
{
	MT_CASE(test_classes());
	MT_CASE(test_responses());
	MT_CASE(test_lengths());
	MT_CASE(test_rmpp_header());
}
