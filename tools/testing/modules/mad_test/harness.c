// SPDX-License-Identifier: GPL-2.0
/* The lines of results, what is seen of the wire, agents that record what their handlers are called with, sends. */
#include "mad_test.h"

int mt_slowness = 1;
module_param_named(slowness, mt_slowness, int, 0444);
static bool verbose;
module_param(verbose, bool, 0644);
bool mt_strict;
module_param_named(strict, mt_strict, bool, 0444);

struct ib_device *mt_device, *mt_roce;
void (*mt_on_remove)(void);
struct mt_wire mt_wire;
static const char *current_test = "", *current_case = "";
static int passed, failed;

static void end_case(void)
{
	if (*current_case && !failed && passed)
		pr_info("pass|%s: %s, %d checks\n", current_test, current_case, passed);
	else if (*current_case && !failed)
		pr_info("fail|%s: %s|nothing was checked\n", current_test, current_case);
	passed = 0;
	failed = 0;
}

void mt_case(const char *call)
{
	end_case();
	current_case = strstarts(call, "test_") ? call + 5 : call;
}

void mt_begin(const char *test)
{
	current_test = test;
	mt_case("begin");
}

/* Several threads may tell something. */
void mt_result(bool ok, long long got, const char *fmt, ...)
{
	static DEFINE_SPINLOCK(lock);
	struct va_format text = { .fmt = fmt };
	unsigned long flags;
	va_list args;

	va_start(args, fmt);
	text.va = &args;
	spin_lock_irqsave(&lock, flags);
	if (ok)
		passed++;
	else
		failed++;
	spin_unlock_irqrestore(&lock, flags);
	if (!ok)
		pr_info("fail|%s: %s: %pV|got %lld\n", current_test, current_case, &text, got);
	else if (verbose)
		pr_info("good|%s: %s: %pV\n", current_test, current_case, &text);
	va_end(args);
}

/* The wire */

static enum fake_ib_fate watch(struct fake_ib_packet *packet, void *context)
{
	int nth;

	spin_lock(&mt_wire.lock);
	nth = mt_wire.count;
	if (nth < MT_PACKETS) {
		mt_wire.packets[nth] = *packet;
		mt_wire.count++;
	}
	spin_unlock(&mt_wire.lock);
	return mt_wire.fate ? mt_wire.fate(packet, nth) : FAKE_IB_PASS;
}

void mt_wire_begin(enum fake_ib_fate (*fate)(struct fake_ib_packet *packet, int nth))
{
	fake_ib_watch(NULL, NULL);
	mt_wire.count = 0;
	mt_wire.fate = fate;
	fake_ib_watch(watch, NULL);
}

void mt_wire_end(void)
{
	fake_ib_watch(NULL, NULL);
	mt_wire.fate = NULL;
}

struct fake_ib_packet *mt_wire_packet(u32 port, __be64 tid, int nth)
{
	struct fake_ib_packet *found = NULL;
	int this;

	spin_lock(&mt_wire.lock);
	for (this = 0; !found && this < mt_wire.count; this++) {
		struct fake_ib_packet *packet = &mt_wire.packets[this];

		if ((!port || packet->port == port) && (!tid || fake_ib_hdr(packet)->tid == tid) && !nth--)
			found = packet;
	}
	spin_unlock(&mt_wire.lock);
	return found;
}

int mt_wire_count(u32 port, __be64 tid)
{
	int count = 0;

	while (mt_wire_packet(port, tid, count))
		count++;
	return count;
}

bool mt_wire_wait(u32 port, __be64 tid, int count, unsigned int ms)
{
	unsigned long end = jiffies + msecs_to_jiffies(ms * mt_slowness);

	while (!mt_wire_packet(port, tid, count - 1)) {
		if (time_after(jiffies, end))
			return false;
		usleep_range(500, 1500);
	}
	return true;
}

void mt_make(struct fake_ib_packet *packet, u32 port, u32 qpn, u8 class, u8 version, u8 method, u64 tid)
{
	struct ib_mad_hdr *header = fake_ib_hdr(packet);

	memset(packet, 0, sizeof(*packet));
	packet->to_port = port;
	packet->src_qpn = qpn;
	packet->dest_qpn = qpn;
	packet->qkey = qpn ? IB_QP1_QKEY : 0;
	packet->pkey = IB_DEFAULT_PKEY_FULL;
	packet->slid = MT_FAR_LID;
	packet->dlid = fake_ib_ports[port].lid;
	packet->length = IB_MGMT_MAD_SIZE;
	header->base_version = IB_MGMT_BASE_VERSION;
	header->mgmt_class = class;
	header->class_version = version;
	header->method = method;
	header->tid = cpu_to_be64(tid);
	header->attr_id = cpu_to_be16(0x99);
}

/* Nobody is there for it, and a Get is answered nevertheless. */
bool mt_fence(u32 port, u32 qpn)
{
	static atomic_t last;
	struct fake_ib_packet *packet = kzalloc_obj(*packet);
	u64 tid = 0xfe00000000000000ULL + atomic_inc_return(&last);
	bool ok = false;
	int tries, error;

	if (!packet)
		return false;
	/* Where many are under way an answer may be dropped, and there may be no room for the request at the moment. */
	for (tries = 0; !ok && tries < 5; tries++) {
		mt_make(packet, port, qpn, qpn ? MT_CLASS : IB_MGMT_CLASS_SUBN_LID_ROUTED, MT_FENCE_VERSION,
			IB_MGMT_METHOD_GET, tid);
		error = fake_ib_deliver(packet);
		if (error)
			msleep(1000 * mt_slowness);
		ok = !error && mt_wire_wait(port, cpu_to_be64(tid), 1, 1000);
	}
	if (!ok)
		pr_info("fence: port %u, QP%u: %d\n", port, qpn, error);
	kfree(packet);
	return ok;
}

/* Agents */

static struct mt_event *new_event(struct mt_agent *agent)
{
	struct mt_event *event;

	if (WARN_ON(agent->count == MT_EVENTS))
		return NULL;
	event = &agent->events[agent->count++];
	memset(event, 0, sizeof(*event));
	return event;
}

static void on_sent(struct ib_mad_agent *of, struct ib_mad_send_wc *wc)
{
	struct mt_agent *agent = of->context;
	struct mt_event *event;

	if (agent->on_sent)
		agent->on_sent(agent, wc);
	if (agent->sleep_ms)
		msleep(agent->sleep_ms);
	spin_lock_irq(&agent->lock);
	event = new_event(agent);
	if (event) {
		event->send = wc->send_buf;
		event->status = wc->status;
		event->vendor_err = wc->vendor_err;
		event->retries = wc->send_buf->retries;
	}
	agent->sent++;
	spin_unlock_irq(&agent->lock);
	wake_up_all(&agent->wait);
	ib_free_send_mad(wc->send_buf);
}

static void on_received(struct ib_mad_agent *of, struct ib_mad_send_buf *send, struct ib_mad_recv_wc *mad)
{
	struct mt_agent *agent = of->context;
	struct mt_event *event;

	if (agent->on_receive)
		agent->on_receive(agent, mad);
	spin_lock_irq(&agent->lock);
	event = new_event(agent);
	if (event) {
		event->received = true;
		event->send = send;
		event->mad = mad;
		event->wc = *mad->wc;
		event->has_grh_buffer = mad->recv_buf.grh;
		event->length = mad->mad_len;
		event->hdr = mad->recv_buf.mad->mad_hdr;
	}
	agent->received++;
	spin_unlock_irq(&agent->lock);
	wake_up_all(&agent->wait);
}

void mt_fill_request(struct ib_mad_reg_req *req, const struct mt_request *wanted)
{
	const u8 *method;

	memset(req, 0, sizeof(*req));
	req->mgmt_class = wanted->class;
	req->mgmt_class_version = wanted->version;
	put_unaligned_be24(wanted->oui, req->oui);
	for (method = wanted->methods; *method; method++)
		set_bit(*method, req->method_mask);
}

int mt_open(struct mt_agent *agent, const struct mt_request *wanted)
{
	struct ib_mad_reg_req req;

	memset(agent, 0, sizeof(*agent));
	spin_lock_init(&agent->lock);
	init_waitqueue_head(&agent->wait);
	agent->events = kvcalloc(MT_EVENTS, sizeof(*agent->events), GFP_KERNEL);
	if (!agent->events)
		return -ENOMEM;
	if (wanted->methods)
		mt_fill_request(&req, wanted);
	agent->agent = ib_register_mad_agent(mt_device, wanted->port, wanted->type, wanted->methods ? &req : NULL, wanted->rmpp,
					     on_sent, on_received, agent, wanted->flags);
	if (!IS_ERR(agent->agent))
		return 0;
	kvfree(agent->events);
	agent->events = NULL;
	return PTR_ERR(agent->agent);
}

void mt_forget(struct mt_agent *agent)
{
	int nth;

	spin_lock_irq(&agent->lock);
	for (nth = 0; nth < agent->count; nth++)
		if (agent->events[nth].mad)
			ib_free_recv_mad(agent->events[nth].mad);
	agent->count = 0;
	agent->sent = 0;
	agent->received = 0;
	spin_unlock_irq(&agent->lock);
}

void mt_unregister(struct mt_agent *agent)
{
	ib_unregister_mad_agent(agent->agent);
	agent->agent = NULL;
}

void mt_close(struct mt_agent *agent)
{
	if (!agent->events)
		return;
	if (agent->agent)
		mt_unregister(agent);
	mt_forget(agent);
	kvfree(agent->events);
	agent->events = NULL;
}

int mt_try(const struct mt_request *wanted)
{
	struct mt_agent agent;
	int ret = mt_open(&agent, wanted);

	if (!ret)
		mt_close(&agent);
	return ret;
}

bool mt_wait_sent(struct mt_agent *agent, int count, unsigned int ms)
{
	return wait_event_timeout(agent->wait, READ_ONCE(agent->sent) >= count, msecs_to_jiffies(ms * mt_slowness));
}

bool mt_wait_received(struct mt_agent *agent, int count, unsigned int ms)
{
	return wait_event_timeout(agent->wait, READ_ONCE(agent->received) >= count, msecs_to_jiffies(ms * mt_slowness));
}

static struct mt_event *find_event(struct mt_agent *agent, bool received, int nth)
{
	struct mt_event *found = NULL;
	int this;

	spin_lock_irq(&agent->lock);
	for (this = 0; !found && this < agent->count; this++)
		if (agent->events[this].received == received && !nth--)
			found = &agent->events[this];
	spin_unlock_irq(&agent->lock);
	return found;
}

struct mt_event *mt_sent(struct mt_agent *agent, int nth)
{
	return find_event(agent, false, nth);
}

struct mt_event *mt_received(struct mt_agent *agent, int nth)
{
	return find_event(agent, true, nth);
}

/* Sends */

static struct {
	struct ib_ah *ah;
	struct ib_pd *pd;
	u32 port;
	u16 lid;
} ahs[64];
static int ah_count;
static DEFINE_MUTEX(ahs_lock);

struct ib_ah *mt_ah(struct ib_mad_agent *agent, u16 lid)
{
	struct rdma_ah_attr attr = { .type = RDMA_AH_ATTR_TYPE_IB };
	struct ib_ah *ah = NULL;
	int nth;

	mutex_lock(&ahs_lock);
	for (nth = 0; !ah && nth < ah_count; nth++)
		if (ahs[nth].pd == agent->qp->pd && ahs[nth].port == agent->port_num && ahs[nth].lid == lid)
			ah = ahs[nth].ah;
	if (!ah && !WARN_ON(ah_count == ARRAY_SIZE(ahs))) {
		rdma_ah_set_dlid(&attr, lid);
		rdma_ah_set_port_num(&attr, agent->port_num);
		ah = rdma_create_ah(agent->qp->pd, &attr, RDMA_CREATE_AH_SLEEPABLE);
		if (!WARN_ON(IS_ERR(ah))) {
			ahs[ah_count].ah = ah;
			ahs[ah_count].pd = agent->qp->pd;
			ahs[ah_count].port = agent->port_num;
			ahs[ah_count++].lid = lid;
		}
	}
	mutex_unlock(&ahs_lock);
	return ah;
}

void mt_drop_ahs(void)
{
	while (ah_count)
		rdma_destroy_ah(ahs[--ah_count].ah, RDMA_DESTROY_AH_SLEEPABLE);
}

struct ib_mad_send_buf *mt_mad(struct mt_agent *agent, u16 lid, u8 class, u8 method, unsigned int timeout_ms, int retries)
{
	return mt_mad_pkey(agent, lid, class, method, timeout_ms, retries, 0);
}

struct ib_mad_send_buf *mt_mad_pkey(struct mt_agent *agent, u16 lid, u8 class, u8 method, unsigned int timeout_ms, int retries,
				    u16 pkey_index)
{
	static atomic_t last;
	struct ib_mad_send_buf *send;
	struct ib_mad *mad;
	int byte;

	send = ib_create_send_mad(agent->agent, agent->agent->qp->qp_num, pkey_index, 0, IB_MGMT_MAD_HDR, IB_MGMT_MAD_DATA,
				  GFP_KERNEL, IB_MGMT_BASE_VERSION);
	if (WARN_ON(IS_ERR(send)))
		return NULL;
	mad = send->mad;
	mad->mad_hdr.base_version = IB_MGMT_BASE_VERSION;
	mad->mad_hdr.mgmt_class = class;
	mad->mad_hdr.class_version = 1;
	mad->mad_hdr.method = method;
	mad->mad_hdr.tid = cpu_to_be64((u64)agent->agent->hi_tid << 32 | atomic_inc_return(&last));
	mad->mad_hdr.attr_id = cpu_to_be16(0x77);
	for (byte = 0; byte < IB_MGMT_MAD_DATA; byte++)
		mad->data[byte] = byte;
	/* RMPP is not active. */
	mad->data[2] = 0;
	send->ah = mt_ah(agent->agent, lid);
	send->timeout_ms = timeout_ms;
	send->retries = retries;
	return send;
}

int mt_post(struct ib_mad_send_buf *send)
{
	int ret = send ? ib_post_send_mad(send, NULL) : -ENOMEM;

	if (ret && send)
		ib_free_send_mad(send);
	return ret;
}

void mt_answer(struct mt_agent *agent, const struct ib_mad_recv_wc *mad)
{
	struct ib_mad_send_buf *send;

	send = ib_create_send_mad(agent->agent, mad->wc->src_qp, mad->wc->pkey_index, 0, IB_MGMT_MAD_HDR, IB_MGMT_MAD_DATA,
				  GFP_KERNEL, IB_MGMT_BASE_VERSION);
	if (WARN_ON(IS_ERR(send)))
		return;
	memcpy(send->mad, mad->recv_buf.mad, IB_MGMT_MAD_SIZE);
	((struct ib_mad_hdr *)send->mad)->method = IB_MGMT_METHOD_GET_RESP;
	send->ah = mt_ah(agent->agent, mad->wc->slid);
	CHECK_EQ(0, mt_post(send), "a server answers");
}
