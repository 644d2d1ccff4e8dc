// SPDX-License-Identifier: GPL-2.0
/*
 * Agents of the files of user MADs: which registrations are taken, which are refused and how, and that what is refused or
 * gone leaves nothing behind. Nothing is sent.
 *
 *   umad_register DEVICE
 */
#define _GNU_SOURCE
#include "umad.h"
#include <sys/mman.h>

static const char *device;

static int open_file(void)
{
	int fd = umad_open(device, 0);

	if (fd < 0)
		die("open the umad file");
	return fd;
}

static struct ib_user_mad_reg_req first_version(void)
{
	struct ib_user_mad_reg_req request = { .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 1,
					       .oui = { OUI >> 16, OUI >> 8 & 0xff, OUI & 0xff } };

	request.method_mask[0] = METHOD(GET);
	return request;
}

static int register_first(int fd, struct ib_user_mad_reg_req *request)
{
	return ioctl(fd, IB_USER_MAD_REGISTER_AGENT, request) ? -errno : (int)request->id;
}

/* What a file answers to one wish; the agent is gone again. */
static int answers(struct wish wish)
{
	int fd = open_file(), id = agent_new(fd, wish);

	if (id >= 0 && agent_gone(fd, id))
		id = -ENOMSG;
	close(fd);
	return id;
}

static void numbers(void)
{
	int fd = open_file();
	struct wish one = { .methods = { METHOD(GET) } }, other = { .methods = { METHOD(SET) } }, third = { .send_only = true };

	equal("the first agent of a file is 0", 0, agent_new(fd, one));
	equal("the second is 1", 1, agent_new(fd, other));
	equal("an agent goes", 0, agent_gone(fd, 0));
	equal("it goes once", -EINVAL, agent_gone(fd, 0));
	equal("its number is given again", 0, agent_new(fd, third));
	equal("a number that was never given", -EINVAL, agent_gone(fd, 7));
	equal("a number that there is not", -EINVAL, agent_gone(fd, AGENTS));
	equal("a large number", -EINVAL, agent_gone(fd, -1));
	close(fd);
}

static void version_one(void)
{
	int fd = open_file(), other = open_file();
	struct ib_user_mad_reg_req request = first_version();

	equal("version 1: an agent", 0, register_first(fd, &request));
	equal("version 1: the same again is refused", -EINVAL, register_first(fd, &request));
	equal("version 2: the same is refused", -EINVAL, agent_new(other, (struct wish){ .methods = { METHOD(GET) } }));
	request.qpn = 2;
	equal("version 1: QP 2", -EINVAL, register_first(fd, &request));
	request.qpn = 0;
	equal("version 1: QP 0, which RoCE has not", -EPROTONOSUPPORT, register_first(fd, &request));
	request = first_version();
	memset(request.oui, 0, 3);
	equal("version 1: no OUI", -EINVAL, register_first(fd, &request));
	request.mgmt_class = 0;
	equal("version 1: an agent that only sends", 1, register_first(fd, &request));
	equal("version 1: an agent goes", 0, agent_gone(fd, 0));
	equal("version 2: then it is taken", 0, agent_new(other, (struct wish){ .methods = { METHOD(GET) } }));
	close(fd);
	close(other);
}

static void version_two(void)
{
	int fd = open_file();
	struct ib_user_mad_reg_req2 request = { .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 1, .oui = OUI, .flags = 0xfffffffe, .res = 7 };

	equal("an unknown flag", -1, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request));
	equal("is refused with EINVAL", EINVAL, errno);
	equal("and the flags that there are", IB_USER_MAD_REG_FLAGS_CAP, request.flags);
	request.flags = 0;
	request.oui = 0x1000000 | OUI;
	equal("an OUI of more than 24 bits", -1, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request));
	request.oui = OUI;
	equal("what is reserved is not looked at", 0, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &request));
	close(fd);
}

static void classes(void)
{
	equal("QP 2", -EINVAL, answers((struct wish){ .qpn_other = 3 }));
	equal("QP 0, which RoCE has not", -EPROTONOSUPPORT, answers((struct wish){ .qpn_other = 1, .mgmt_class = SUBN_LID }));
	equal("subnet management at QP 1", -EINVAL, answers((struct wish){ .mgmt_class = SUBN_LID }));
	equal("subnet management by directed route at QP 1", -EINVAL, answers((struct wish){ .mgmt_class = SUBN_DIRECTED }));
	equal("the last class", 0, answers((struct wish){ .mgmt_class = 0x4f }));
	equal("the one after it", -EINVAL, answers((struct wish){ .mgmt_class = 0x50 }));
	equal("the largest class", -EINVAL, answers((struct wish){ .mgmt_class = 0xff }));
	equal("class version 0x82", 0, answers((struct wish){ .version = 0x82 }));
	equal("class version 0x83", -EINVAL, answers((struct wish){ .version = 0x83 }));
	equal("a vendor's class without an OUI", -EINVAL, answers((struct wish){ .no_oui = true }));
	equal("an old vendor's class needs none", 0, answers((struct wish){ .mgmt_class = VENDOR_OLD, .no_oui = true }));
	equal("no method at all", 0, answers((struct wish){ .mgmt_class = SUBN_ADM }));
	equal("all methods", 0, answers((struct wish){ .mgmt_class = SUBN_ADM, .methods = { ~0ull, ~0ull } }));
	equal("an agent that only sends", 0, answers((struct wish){ .send_only = true }));
}

static void rmpp(void)
{
	static const struct { uint8_t class; bool has; } table[] = {
		{ SUBN_ADM, true }, { DEVICE_MGMT, true }, { DEVICE_ADM, true }, { BIS, true }, { VENDOR, true }, { 0x4f, true },
		{ PERFORMANCE, false }, { 0x05, false }, { 0x08, false }, { VENDOR_OLD, false }, { 0x0f, false }, { 0x11, false }, { 0x2f, false },
	};
	char name[64];

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		snprintf(name, sizeof(name), "RMPP of class 0x%02x", table[i].class);
		equal(name, table[i].has ? 0 : -EINVAL, answers((struct wish){ .mgmt_class = table[i].class, .rmpp = 1 }));
	}
	equal("RMPP version 2", -EINVAL, answers((struct wish){ .rmpp = 2 }));
	equal("RMPP version 255", -EINVAL, answers((struct wish){ .rmpp = 255 }));
	equal("RMPP of the program's own", 0, answers((struct wish){ .rmpp = 1, .flags = IB_USER_MAD_USER_RMPP }));
	equal("the same without a version", 0, answers((struct wish){ .flags = IB_USER_MAD_USER_RMPP }));
	equal("RMPP of an agent that only sends", 0, answers((struct wish){ .send_only = true, .rmpp = 1 }));
	equal("RMPP of its own, only sending", -EINVAL, answers((struct wish){ .send_only = true, .rmpp = 1, .flags = IB_USER_MAD_USER_RMPP }));
}

static void overlap(void)
{
	int fd = open_file(), other = open_file(), id;
	struct wish mine = { .methods = { METHOD(GET) | METHOD(SET), METHOD(5) } }, theirs = mine;

	id = agent(fd, mine);
	equal("the same methods", -EINVAL, agent_new(other, theirs));
	theirs.methods[0] = METHOD(SET) | METHOD(SEND);
	theirs.methods[1] = 0;
	equal("one method in common", -EINVAL, agent_new(other, theirs));
	theirs.methods[0] = 0;
	theirs.methods[1] = METHOD(5) | METHOD(6);
	equal("one of the upper half in common", -EINVAL, agent_new(other, theirs));
	theirs.methods[1] = METHOD(6);
	is("other methods", agent_new(other, theirs) == 0 && !agent_gone(other, 0), "refused");
	is("another version of the class", agent_new(other, (struct wish){ .version = 2, .methods = { METHOD(GET) } }) == 0, "refused");
	is("another OUI", agent_new(other, (struct wish){ .oui = 7, .methods = { METHOD(GET) } }) == 1, "refused");
	is("another class", agent_new(other, (struct wish){ .mgmt_class = VENDOR + 1, .methods = { METHOD(GET) } }) == 2, "refused");
	equal("an agent goes", 0, agent_gone(fd, id));
	equal("then its methods are free", 3, agent_new(other, mine));
	close(other);
	equal("a file closes, and so are its agents'", 0, agent_new(fd, mine));
	close(fd);
	fd = open_file();
	mine = (struct wish){ .mgmt_class = SUBN_ADM, .methods = { METHOD(GET) } };
	id = agent(fd, mine);
	equal("the same of a class without an OUI", -EINVAL, agent_new(fd, mine));
	close(fd);
}

/* A class has room for eight OUIs. */
static void ouis(void)
{
	int fd = open_file(), good = 0;

	for (uint32_t oui = 1; oui <= 8; oui++)
		good += agent_new(fd, (struct wish){ .oui = oui, .methods = { METHOD(GET) } }) >= 0;
	equal("eight OUIs of a class", 8, good);
	equal("a ninth", -ENOMEM, agent_new(fd, (struct wish){ .oui = 9, .methods = { METHOD(GET) } }));
	is("more methods of the first", agent_new(fd, (struct wish){ .oui = 1, .methods = { METHOD(SET) } }) >= 0, "refused");
	equal("one goes", 0, agent_gone(fd, 3));
	is("then the ninth has room", agent_new(fd, (struct wish){ .oui = 9, .methods = { METHOD(GET) } }) >= 0, "refused");
	close(fd);
	fd = open_file();
	good = 0;
	for (uint32_t oui = 11; oui <= 18; oui++)
		good += agent_new(fd, (struct wish){ .oui = oui, .methods = { METHOD(GET) } }) >= 0;
	equal("and others when the file is closed", 8, good);
	close(fd);
}

/* Registers as many agents as a file takes; each has a method of its own. */
static int fill(int fd)
{
	int count = 0;

	while (count < 60 && agent_new(fd, (struct wish){ .methods = { METHOD(count) } }) == count)
		count++;
	return count;
}

static void limits(void)
{
	int fd = open_file(), other;

	equal("agents of a file", AGENTS, fill(fd));
	equal("one more", -ENOMEM, agent_new(fd, (struct wish){ .methods = { METHOD(50) } }));
	other = open_file();
	equal("another file has its own", 0, agent_new(other, (struct wish){ .methods = { METHOD(50) } }));
	equal("one goes", 0, agent_gone(fd, 17));
	equal("and its number is free", 17, agent_new(fd, (struct wish){ .methods = { METHOD(51) } }));
	close(fd);
	fd = open_file();
	equal("a closed file leaves none", AGENTS, fill(fd));
	close(fd);
	close(other);
}

/* What cannot be told to the program is not there. */
static void bad_memory(void)
{
	struct ib_user_mad_reg_req2 *two = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ib_user_mad_reg_req *one = (void *)two + 2048;
	int fd = open_file();

	*two = (struct ib_user_mad_reg_req2){ .qpn = 1, .mgmt_class = VENDOR, .mgmt_class_version = 1, .oui = OUI, .method_mask = { METHOD(GET) } };
	*one = first_version();
	mprotect(two, 4096, PROT_READ);
	is("version 2: the number cannot be written", ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, two) && errno == EFAULT, "no EFAULT");
	is("version 1: the number cannot be written", ioctl(fd, IB_USER_MAD_REGISTER_AGENT, one) && errno == EFAULT, "no EFAULT");
	is("version 2: no memory", ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, NULL) && errno == EFAULT, "no EFAULT");
	is("version 1: no memory", ioctl(fd, IB_USER_MAD_REGISTER_AGENT, NULL) && errno == EFAULT, "no EFAULT");
	is("unregister: no memory", ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, NULL) && errno == EFAULT, "no EFAULT");
	equal("nothing was left", 0, agent_new(fd, (struct wish){ .methods = { METHOD(GET) } }));
	munmap(two, 4096);
	close(fd);
}

static void layout(void)
{
	int fd = open_file();
	struct ib_user_mad_reg_req request = first_version();

	equal("the P_Key index is asked for", 0, ioctl(fd, IB_USER_MAD_ENABLE_PKEY));
	equal("twice", 0, ioctl(fd, IB_USER_MAD_ENABLE_PKEY));
	register_first(fd, &request);
	is("but not when there was an agent", ioctl(fd, IB_USER_MAD_ENABLE_PKEY) && errno == EINVAL, "no EINVAL");
	agent_gone(fd, 0);
	is("nor when it is gone", ioctl(fd, IB_USER_MAD_ENABLE_PKEY) && errno == EINVAL, "no EINVAL");
	is("an unknown ioctl", ioctl(fd, _IO(RDMA_IOCTL_MAGIC, 0x7f)) && errno == ENOTTY, "no ENOTTY");
	close(fd);
	fd = open_file();
	agent_new(fd, (struct wish){ 0 });
	is("nor after version 2", ioctl(fd, IB_USER_MAD_ENABLE_PKEY) && errno == EINVAL, "no EINVAL");
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: DEVICE");
	device = argv[1];
	numbers();
	version_one();
	version_two();
	classes();
	rmpp();
	overlap();
	ouis();
	limits();
	bad_memory();
	layout();
	return all_done();
}
