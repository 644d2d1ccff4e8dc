// SPDX-License-Identifier: GPL-2.0
/*
 * Hostile management datagrams: forged ones from the wire to QP 1, with right ICRCs, from senders that exist and some that do
 * not, to agents of all kinds that have requests under way; and meanwhile programs that write anything to /dev/infiniband/umadN.
 *
 *   fuzz_mads DEVICE NETNS NETDEV GID4 GID6 PEER_DEVICE PEER_NETNS PEER_NETDEV PEER_GID4 PEER_GID6 COUNT [SEED]
 *
 * GID4 and GID6 are indices. The forged senders are 10.0.0.64 to 10.0.0.127 and fd00::1000 to fd00::103f: they must have
 * neighbour entries with the peer's address. After each batch of packets the device must answer one that it has no agent for:
 * so nothing is sent faster than it is looked at. The programs make COUNT calls, too, at the pace of the packets. Two agents
 * talk to each other all the while, and must go on to.
 */
#define _GNU_SOURCE
#include "fuzz_wire.h"
#include "umad.h"
#include <pthread.h>

#define FORGED 64
#define SEEN 256
#define FILES 4
#define THREADS 3
#define LEAD 256
#define FLOOD 8000
#define STRANGERS 15

static struct node nodes[2][2];		/* here and there, by IP version */
static struct path forged[2][FORGED];
static struct mad seen[SEEN];		/* what the device sent lately */
static uint32_t seen_count;
static uint64_t heard_requests, heard_answers, heard_rmpp, sent_packets;
static uint64_t seed;

/* Agents that the wire is to find. */
static const struct wish wishes[] = {
	{ .rmpp = 1, .methods = { METHOD(GET) | METHOD(SET) | METHOD(SEND) } },
	{ .mgmt_class = SUBN_ADM, .version = 2, .rmpp = 1, .methods = { METHOD(GET) | METHOD(SET) | METHOD(GET_TABLE) } },
	{ .mgmt_class = DEVICE_MGMT, .rmpp = 1, .methods = { METHOD(GET) | METHOD(SET) } },
	{ .mgmt_class = VENDOR + 1, .rmpp = 1, .flags = IB_USER_MAD_USER_RMPP, .methods = { METHOD(GET) | METHOD(SET) } },
	{ .mgmt_class = 0x0a, .methods = { METHOD(SEND) | METHOD(TRAP) } },
};
static int victim_fd, victims[ARRAY_SIZE(wishes)];

/* The other talk
 * ------------------------------------------------------------------------------------------------------------------ */

enum { BYSTANDER_CLASS = VENDOR + 5, PATIENCE = 30000 };

static struct {
	pthread_t thread;
	volatile bool stop;
	volatile const char *failed;
	volatile uint64_t answers;
	volatile long longest;
} bystander;

/* One request from there to an agent here, and its answer. */
static bool one_talk(int ask_fd, int asks, int serve_fd, int serves, uint32_t tid)
{
	struct message request = message(asks, &nodes[1][1], &nodes[0][1], GET, tid), got;
	long began = now_ms();

	request.mad.mgmt_class = BYSTANDER_CLASS;
	request.mad.data[7] = tid;
	request.hdr.timeout_ms = paced(1000);
	request.hdr.retries = 20;
	if (put_message(ask_fd, &request))
		return false;
	while (now_ms() - began < PATIENCE && !bystander.stop) {
		if (take_message(serve_fd, &got, 5) == WHOLE) {
			answer_to(&got, serves);
			put_message(serve_fd, &got);
		}
		if (take_message(ask_fd, &got, 5) == -EAGAIN || low(&got.mad) != tid)
			continue;
		if (now_ms() - began > bystander.longest)
			bystander.longest = now_ms() - began;
		return !got.hdr.status && got.mad.data[7] == (uint8_t)tid;
	}
	return bystander.stop;
}

static void *talk(void *unused)
{
	int ask_fd = umad_open(nodes[1][1].device, 0), serve_fd = umad_open(nodes[0][1].device, 0);
	int asks = agent(ask_fd, (struct wish){ .mgmt_class = BYSTANDER_CLASS, .version = 2 });
	int serves = agent(serve_fd, (struct wish){ .mgmt_class = BYSTANDER_CLASS, .methods = { METHOD(GET) } });

	(void)unused;
	for (uint32_t tid = 1; !bystander.stop; tid++) {
		if (!one_talk(ask_fd, asks, serve_fd, serves, tid)) {
			bystander.failed = "a request was not answered";
			break;
		}
		bystander.answers++;
		usleep(10000);
	}
	close(ask_fd);
	close(serve_fd);
	return NULL;
}

static void bystander_begin(void)
{
	bystander.stop = false;
	bystander.failed = NULL;
	bystander.answers = bystander.longest = 0;
	pthread_create(&bystander.thread, NULL, talk, NULL);
}

/* Whether all its requests were answered, and some there were. */
static bool bystander_end(const char *when)
{
	bystander.stop = true;
	pthread_join(bystander.thread, NULL);
	printf("%lu requests of others were answered during %s, the slowest in %ld ms\n", (unsigned long)bystander.answers, when, bystander.longest);
	return !bystander.failed && bystander.answers;
}

/* Memory
 * ------------------------------------------------------------------------------------------------------------------ */

/* A line of /proc/meminfo, in KiB. */
static long meminfo(const char *format)
{
	char line[128];
	FILE *file = fopen("/proc/meminfo", "r");
	long value = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, format, &value) == 1)
			break;
	if (file)
		fclose(file);
	return value;
}

/* What kmemleak, if the kernel has it, keeps about all objects (KiB). */
static long notes_of_kmemleak(void)
{
	FILE *file = fopen("/proc/slabinfo", "r");
	long pages, slabs, kib = 0;
	char line[512];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "kmemleak_object %*d %*d %*d %*d %ld : tunables %*d %*d %*d : slabdata %*d %ld", &pages, &slabs) == 2)
			kib = pages * slabs * 4;
	if (file)
		fclose(file);
	return kib;
}

/* The kernel's own memory that cannot be given back. */
static long kernel_memory(void)
{
	return meminfo("SUnreclaim: %ld") - notes_of_kmemleak();
}

/* What KASAN, which User Mode Linux has here, may keep of memory that was freed: a part of all there is. */
static long quarantine(void)
{
	return system("grep -q 'User Mode Linux' /proc/cpuinfo") ? 0 : meminfo("MemTotal: %ld") / 32;
}

/* Whether it is back at some value, and a little more, within so many seconds. */
static bool memory_comes_back(long before, long more, int seconds)
{
	long now = kernel_memory();

	for (int i = 0; i < seconds * 5 && now > before + more; i++) {
		usleep(200000);
		now = kernel_memory();
	}
	printf("memory: %ld KiB before, %ld KiB after\n", before, now);
	return now <= before + more;
}

/* What the device sends
 * ------------------------------------------------------------------------------------------------------------------ */

/* The MAD in a frame to QP 1, or NULL. */
static const struct mad *mad_of(const struct segmented *frame)
{
	const uint8_t *ethernet = frame->bytes, *udp;
	bool six = ethernet[12] == 0x86;

	udp = ethernet + 14 + (six ? 40 : 20);
	if (frame->length < (size_t)(udp - ethernet) + 8 + 20 + MAD + 4 || (!six && ethernet[12] != 0x08) || ethernet[14 + (six ? 6 : 9)] != 17)
		return NULL;
	if (udp[8] != (SERVICE_UD | SEND_ONLY) || get24(udp + 13) != 1)
		return NULL;
	return (const void *)(udp + 28);
}

/* Reads all that has come; whether the answer to a marker was among it. */
static bool listen_for(uint64_t marker)
{
	bool found = false;
	int count;

	while ((count = receive_frames()) > 0)
		for (int i = 0; i < count; i++) {
			const struct mad *mad = mad_of(&heard[i]);
			struct mad *keep = &seen[seen_count % SEEN];

			if (!mad)
				continue;
			memcpy(keep, mad, sizeof(*keep));
			if (keep->tid == marker) {
				found = found || (keep->method == GET_RESPONSE && keep->status == htons(UNSUPPORTED));
				continue;
			}
			if (keep->mgmt_class == BYSTANDER_CLASS)
				continue;
			*(keep->method & RESPONSE ? &heard_answers : &heard_requests) += 1;
			heard_rmpp += (keep->rmpp_flags & RMPP_ACTIVE) != 0;
			seen_count++;
		}
	return found;
}

static const struct mad *some_seen(void) { return &seen[below(seen_count < SEEN ? seen_count + !seen_count : SEEN)]; }

/* What is sent to it
 * ------------------------------------------------------------------------------------------------------------------ */

static void emit(const struct path *path, const struct mad *mad, size_t length)
{
	static struct packet packet;
	static uint8_t bytes[1024];

	memcpy(bytes, mad, sizeof(*mad));
	begin(&packet, SERVICE_UD | SEND_ONLY, 1, any(), false);
	append32(&packet, one_in(200) ? any() : GSI_QKEY);
	append32(&packet, one_in(8) ? any() & 0xffffff : 1);
	append(&packet, bytes, length < sizeof(bytes) ? length : sizeof(bytes));
	packet.bytes[1] = (packet.bytes[1] & ~0x30) | (-length & 3) << 4;
	append(&packet, "\0\0\0", -length & 3);
	wrap(&frames[frame_count++], path, &packet, !one_in(200));
	__atomic_fetch_add(&sent_packets, 1, __ATOMIC_RELAXED);
	if (frame_count == BATCH)
		flush();
}

static const struct path *some_sender(void)
{
	static struct path stranger;
	bool six = !one_in(3);

	if (one_in(64))
		return &paths[six];
	if (!one_in(3000))
		return &forged[six][below(FORGED)];
	stranger = paths[six];
	stranger.source[six ? 14 : 3] = six ? 0x20 : 200 + below(50);
	return &stranger;
}

/* The device must answer this; until it does nothing more is sent. */
static bool marker_comes(void)
{
	static uint32_t number;
	struct mad marker = { .base_version = 1, .mgmt_class = 0x0b, .class_version = 1, .method = GET, .attribute = htons(1) };
	long began = now_ms();
	static struct packet packet;

	marker.tid = htobe64(0xfeed000000000000ull | ++number);
	while (now_ms() - began < 60000) {
		long sent = now_ms();

		begin(&packet, SERVICE_UD | SEND_ONLY, 1, number, false);
		append32(&packet, GSI_QKEY);
		append32(&packet, 1);
		append(&packet, &marker, sizeof(marker));
		wrap(&frames[frame_count++], &forged[1][0], &packet, true);
		flush();
		while (now_ms() - sent < 2000) {
			if (listen_for(marker.tid))
				return true;
			usleep(200);
		}
	}
	return false;
}

/* Mads
 * ------------------------------------------------------------------------------------------------------------------ */

static uint8_t some_class(void)
{
	static const uint8_t liked[] = { VENDOR, VENDOR, VENDOR, SUBN_ADM, SUBN_ADM, DEVICE_MGMT, CM, VENDOR + 1, VENDOR + 1, PERFORMANCE, 0x05, 0x0a,
					 SUBN_LID, SUBN_DIRECTED };

	return one_in(16) ? any() : liked[below(ARRAY_SIZE(liked))];
}

static uint8_t some_method(void)
{
	static const uint8_t liked[] = { GET, SET, SEND, GET_TABLE, TRAP, TRAP_REPRESS, GET_RESPONSE, SEND | RESPONSE, GET_TABLE | RESPONSE };

	return one_in(16) ? any() : liked[below(ARRAY_SIZE(liked))];
}

static uint64_t some_tid(void)
{
	switch (below(6)) {
	case 0: return any64();
	case 1: return htobe64((be64toh(some_seen()->tid) & ~0xffffffffull) | below(64));
	case 2: case 3: return some_seen()->tid;
	default: return htobe64(0x5000000000ull | below(24));
	}
}

static uint32_t some_segment(void) { return one_in(6) ? odd_number() : 1 + below(one_in(2) ? 4 : 80); }

static void some_rmpp(struct mad *mad)
{
	mad->rmpp_version = one_in(32) ? any() : 1;
	mad->rmpp_type = one_in(32) ? any() : one_in(3) ? 1 + below(4) : RMPP_DATA;
	mad->rmpp_status = one_in(8) ? any() : mad->rmpp_type == RMPP_ABORT ? 118 + below(10) : 0;
	mad->segment = htonl(some_segment());
	mad->rmpp_flags = (one_in(6) ? 0 : RMPP_ACTIVE) | (mad->segment == htonl(1) && !one_in(8) ? RMPP_FIRST : 0) | (one_in(4) ? RMPP_LAST : 0);
	if (one_in(16))
		mad->rmpp_flags = any();
	mad->length = htonl(one_in(4) ? odd_number() : below(300));
}

/* The version of a class that has an agent. */
static uint8_t version_of(uint8_t class) { return class == SUBN_ADM || class == CM ? 2 : 1; }

static struct mad new_mad(void)
{
	struct mad mad = { .base_version = one_in(1000) ? any() : 1, .mgmt_class = some_class(), .method = some_method(), .tid = some_tid(),
			   .attribute = htons(one_in(4) ? odd_number() : below(64)), .modifier = htonl(odd_number()), .oui = htonl(OUI) };
	uint64_t word = any64();

	mad.class_version = one_in(16) ? any() : version_of(mad.mgmt_class);
	if (one_in(16))
		mad.oui = any();
	if (one_in(8))
		mad.status = any();
	for (size_t at = 0; at + 8 <= sizeof(mad.data); at += 8, word = word * 0x2545f4914f6cdd1dull + 1)
		memcpy(mad.data + at, &word, 8);
	some_rmpp(&mad);
	return mad;
}

/* An answer to something that the device has sent: data, an ACK or something like it. */
static struct mad reply_mad(void)
{
	struct mad mad = *some_seen();

	mad.method ^= RESPONSE;
	switch (below(4)) {
	case 0:
		mad.rmpp_flags &= ~RMPP_ACTIVE;
		break;
	case 1:
		mad.rmpp_type = RMPP_ACK;
		mad.segment = htonl(one_in(8) ? odd_number() : below(60));
		mad.length = htonl(ntohl(mad.segment) + (one_in(8) ? odd_number() : below(64)));
		break;
	default:
		some_rmpp(&mad);
	}
	return mad;
}

static size_t some_length(void) { return one_in(24) ? below(MAD) : one_in(100) ? below(1000) : MAD; }

/* Each agent asks a sender that does not answer, or in a way of its own. */
static void victims_ask(void)
{
	static char buffer[HEADER + 128 * MAD];
	static uint32_t tid;

	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++) {
		struct message *request = (void *)buffer;
		size_t size = wishes[i].rmpp && !wishes[i].flags && one_in(2) ? MAD + below(100 * MAD) : MAD;

		*request = message(victims[i], &nodes[0][1], &nodes[1][1], one_in(4) ? GET_TABLE : GET, ++tid);
		request->hdr.gid[14] = 0x10;
		request->hdr.gid[15] = below(FORGED);
		request->hdr.timeout_ms = 1 + below(400);
		request->hdr.retries = below(3);
		request->mad.mgmt_class = wishes[i].mgmt_class ? wishes[i].mgmt_class : VENDOR;
		request->mad.class_version = version_of(request->mad.mgmt_class);
		request->mad.rmpp_flags = size > MAD ? RMPP_ACTIVE : 0;
		put(victim_fd, buffer, HEADER + size);
	}
	while (take(victim_fd, buffer, sizeof(buffer), 0) > 0)
		;
}

static void victims_begin(void)
{
	victim_fd = umad_open(nodes[0][1].device, 0);
	for (size_t i = 0; i < ARRAY_SIZE(wishes); i++)
		victims[i] = agent(victim_fd, wishes[i]);
}

/* Programs
 * ------------------------------------------------------------------------------------------------------------------ */

static int files[FILES];
static volatile bool programs_stop;
static uint64_t programs_calls, programs_good;

static uint64_t calls_made(void) { return __atomic_load_n(&programs_calls, __ATOMIC_RELAXED); }

static uint64_t packets_made(void) { return __atomic_load_n(&sent_packets, __ATOMIC_RELAXED); }

static int some_file(void) { return __atomic_load_n(&files[below(FILES)], __ATOMIC_RELAXED); }

static void count_good(bool good) { __atomic_fetch_add(&programs_good, good, __ATOMIC_RELAXED); }

static void register_any(int fd)
{
	struct ib_user_mad_reg_req2 two = { .qpn = one_in(32) ? any() : 1, .mgmt_class = some_class(), .flags = one_in(4), .rmpp_version = one_in(2),
					    .oui = one_in(8) ? odd_number() : OUI };
	struct ib_user_mad_reg_req one = { .qpn = 1, .mgmt_class = some_class(), .mgmt_class_version = below(4), .rmpp_version = one_in(2),
					   .oui = { OUI >> 16, OUI >> 8 & 0xff, OUI & 0xff } };

	two.mgmt_class_version = one_in(16) ? any() : 3 + below(4);
	two.method_mask[0] = one_in(2) ? any64() & any64() & any64() : 0;
	one.method_mask[0] = two.method_mask[0];
	count_good(one_in(4) ? !ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &one) : !ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &two));
}

static void write_any(int fd, char *buffer, size_t room)
{
	bool six = !one_in(3);
	struct message *out = (void *)buffer;
	size_t size = one_in(3) ? below(one_in(16) ? room : 3000) : WHOLE;

	*out = message(one_in(16) ? odd_number() : below(6), &nodes[0][six], &nodes[one_in(2)][six], GET, 0);
	out->mad = new_mad();
	if (one_in(16))
		out->mad.base_version = any();
	if (one_in(2)) {
		out->hdr.gid[14] = six ? 0x10 : out->hdr.gid[14];
		out->hdr.gid[15] = six ? below(FORGED) : 64 + below(FORGED);
	}
	if (one_in(32))
		out->hdr.gid_index = any();
	if (one_in(32))
		out->hdr.grh_present = any();
	if (one_in(16))
		out->hdr.qpn = any();
	if (one_in(16))
		out->hdr.pkey_index = any();
	out->hdr.timeout_ms = one_in(32) ? odd_number() : one_in(3) ? 0 : below(200);
	out->hdr.retries = one_in(32) ? odd_number() : below(4);
	count_good(!put(fd, buffer, size));
}

static void call_any(char *buffer, size_t room)
{
	int fd = some_file();

	switch (below(16)) {
	case 0: case 1:
		register_any(fd);
		break;
	case 2:
		agent_gone(fd, one_in(8) ? odd_number() : below(6));
		break;
	case 3:
		if (one_in(12)) {
			fd = umad_open(nodes[0][1].device, O_NONBLOCK);
			if (one_in(2))
				ioctl(fd, IB_USER_MAD_ENABLE_PKEY);
			close(__atomic_exchange_n(&files[below(FILES)], fd, __ATOMIC_RELAXED));
		}
		break;
	case 4: case 5: case 6: case 7:
		count_good(read(fd, buffer, one_in(8) ? below(400) : room) > 0);
		break;
	case 8:
		readable(fd, 0);
		break;
	default:
		write_any(fd, buffer, room);
	}
	__atomic_fetch_add(&programs_calls, 1, __ATOMIC_RELAXED);
}

static void *program(void *number)
{
	size_t room = 80000;
	char *buffer = calloc(1, room + HEADER + MAD);

	fuzz_seed(seed, 1000 + (uintptr_t)number);
	while (!programs_stop)
		if (calls_made() > packets_made() + LEAD)
			usleep(200);
		else
			call_any(buffer, room);
	free(buffer);
	return NULL;
}

/* The parts
 * ------------------------------------------------------------------------------------------------------------------ */

static bool storm(uint64_t count)
{
	pthread_t threads[THREADS];
	bool alive = true;

	for (int i = 0; i < FILES; i++)
		files[i] = umad_open(nodes[0][1].device, O_NONBLOCK);
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, program, (void *)i);
	while (alive && (sent_packets < count || calls_made() < count)) {
		if (sent_packets > calls_made() + LEAD) {
			usleep(200);
			continue;
		}
		victims_ask();
		for (int i = 0; i < BATCH; i++) {
			struct mad mad = one_in(3) ? reply_mad() : new_mad();

			emit(some_sender(), &mad, some_length());
		}
		alive = marker_comes();
	}
	programs_stop = true;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < FILES; i++)
		close(files[i]);
	return alive;
}

static void attack(uint64_t count)
{
	long before = kernel_memory(), began = now_ms();
	bool alive;

	bystander_begin();
	victims_begin();
	alive = storm(count);
	close(victim_fd);
	printf("%lu packets in %ld s; the device sent %lu requests and %lu answers, %lu of them of RMPP\n", (unsigned long)sent_packets, (now_ms() - began) / 1000,
	       (unsigned long)heard_requests, (unsigned long)heard_answers, (unsigned long)heard_rmpp);
	printf("%lu calls of programs, %lu good ones\n", (unsigned long)programs_calls, (unsigned long)programs_good);
	is("the device answers all the while", alive, "no more");
	is("packets and calls are as many as were wanted", sent_packets >= count && programs_calls >= count, "fewer");
	is("packets reach agents", heard_answers > sent_packets / 50 && heard_rmpp > sent_packets / 50, "too few answers");
	is("calls of programs succeed, and fail", programs_good > programs_calls / 20 && programs_good < programs_calls, "too few");
	is("others are served", bystander_end("it"), "they are not");
	is("memory comes back", memory_comes_back(before, (16 << 10) + quarantine(), paced(15)), "it does not");
}

/* A message of 40 segments from there to the agent that is flooded. */
static bool honest_message(void)
{
	static char buffer[HEADER + 40 * MAD];
	const int size = HEADER + VENDOR_HEADER + 40 * (MAD - VENDOR_HEADER);
	int fd = umad_open(nodes[1][1].device, 0), id = agent(fd, (struct wish){ .version = 2, .rmpp = 1 }), got = 0;
	struct message *out = (void *)buffer;
	long began = now_ms();

	*out = message(id, &nodes[1][1], &nodes[0][1], SET, 1);
	out->mad.rmpp_flags = RMPP_ACTIVE;
	out->hdr.retries = 10;
	put(fd, buffer, size);
	while (got != size && now_ms() - began < paced(20000))
		got = take(victim_fd, buffer, sizeof(buffer), 100);
	close(fd);
	return got == size;
}

/* A first segment each of as many messages, which never end. */
static void flood(void)
{
	struct mad mad = { .base_version = 1, .mgmt_class = VENDOR, .class_version = 1, .method = SET, .attribute = htons(1), .oui = htonl(OUI),
			   .rmpp_version = 1, .rmpp_type = RMPP_DATA, .rmpp_flags = RMPP_ACTIVE | RMPP_FIRST, .segment = htonl(1), .length = htonl(2200) };
	long before = kernel_memory(), began = now_ms(), now, most = 0;
	uint32_t sent = 0;
	char why[80];

	bystander_begin();
	victims_begin();
	heard_answers = 0;
	do {
		for (int i = 0; i < BATCH; i++, sent++) {
			mad.tid = htobe64(0x7700000000ull | sent);
			emit(&forged[1][below(FORGED)], &mad, MAD);
		}
		now = kernel_memory() - before;
		most = now > most ? now : most;
	} while (marker_comes() && sent < FLOOD);
	printf("%u messages began in %ld s, %lu answers; %ld KiB more\n", sent, (now_ms() - began) / 1000, (unsigned long)heard_answers, most);
	is("the device answers through a flood", sent >= FLOOD, "no more");
	snprintf(why, sizeof(why), "%ld KiB", most);
	is_not_on_stock("ib_core", "messages that never end take no more than 4 MiB", most < 4 << 10, why);
	is("a message that does end comes through them", honest_message(), "it does not");
	is("others are served in a flood", bystander_end("the flood"), "they are not");
	close(victim_fd);
	is("memory comes back when the agent goes", memory_comes_back(before, (8 << 10) + quarantine(), paced(15)), "it does not");
}

/* How long 20 requests of others take, in ms, or `patience` if that is shorter; sets `good`, whether they were answered. */
static long talk_takes(const char *when, long patience, bool *good)
{
	long began = now_ms(), took;

	bystander_begin();
	while ((took = now_ms() - began) < patience && bystander.answers < 20)
		usleep(20000);
	*good = bystander_end(when) && bystander.answers >= 20;
	return took;
}

/* MADs of senders whom nobody knows: stock looks for each, one after the other, and lets all others wait. */
static void strangers(const char *what, uint8_t mgmt_class, uint8_t rmpp_type)
{
	struct mad mad = { .base_version = 1, .mgmt_class = mgmt_class, .class_version = 1, .method = GET, .attribute = htons(1) };
	struct path path = paths[1];
	bool good;
	long usual = talk_takes("a quiet time", 60000, &good);
	char name[80];

	if (!good)
		die("a talk in a quiet time");
	if (rmpp_type) {
		mad.oui = htonl(OUI);
		mad.rmpp_version = 1;
		mad.rmpp_type = rmpp_type;
		mad.rmpp_flags = RMPP_ACTIVE | RMPP_FIRST;
		mad.segment = htonl(1);
		mad.length = htonl(10000);
	}
	path.source[13] = 0x33;
	for (int i = 0; i < STRANGERS; i++) {
		path.source[15] = i;
		mad.tid = htobe64(0x8800000000ull | i);
		emit(&path, &mad, MAD);
	}
	flush();
	talk_takes("a visit of strangers", 5000 + 4 * usual, &good);
	snprintf(name, sizeof(name), "others do not wait for strangers with %s to be found", what);
	is_not_on_stock("ib_core", name, good, "they wait");
	is("the device comes back from it", marker_comes() || marker_comes(), "it does not");
}

/* Their requests, their messages, and what makes no sense: each would be answered. */
static void all_strangers(void)
{
	strangers("requests", 0x0c, 0);
	victims_begin();
	strangers("messages", VENDOR, RMPP_DATA);
	strangers("unknown types of RMPP", VENDOR, 9);
	close(victim_fd);
}

static void set_up(char **argv)
{
	union ibv_gid gids[2][2];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int end = 0; end < 2; end++)
		for (int six = 0; six < 2; six++) {
			node_open(&nodes[end][six], argv[1 + 5 * end], argv[4 + 5 * end + six]);
			close(nodes[end][six].fd);
			gids[end][six] = nodes[end][six].gid;
		}
	wire_init(&argv[2], &argv[7], gids);
	for (int i = 0; i < FORGED; i++)
		for (int six = 0; six < 2; six++) {
			forged[six][i] = paths[six];
			forged[six][i].source[six ? 14 : 3] = six ? 0x10 : 64 + i;
			forged[six][i].source[15] = six ? i : 0;
		}
}

int main(int argc, char **argv)
{
	if (argc < 12)
		die("usage: DEVICE NETNS NETDEV GID4 GID6 PEER_DEVICE PEER_NETNS PEER_NETDEV PEER_GID4 PEER_GID6 COUNT [SEED]");
	seed = argc > 12 ? strtoull(argv[12], NULL, 0) : 1;
	printf("seed %lu\n", (unsigned long)seed);
	set_up(argv);
	fuzz_seed(seed, 0);
	is("the device answers a forged request", marker_comes(), "it does not");
	attack(strtoull(argv[11], NULL, 0));
	flood();
	all_strangers();
	return all_done();
}
