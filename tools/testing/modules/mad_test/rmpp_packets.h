/* SPDX-License-Identifier: GPL-2.0 */
/* Tests of transfers in segments: what their files share. */
#ifndef MAD_TEST_RMPP_PACKETS_H
#define MAD_TEST_RMPP_PACKETS_H

#include "mad_test.h"

#define RMPP_OUI 0x00abcd
#define RMPP_SEGMENT 216		/* bytes of data in one of this class */
#define RMPP_WINDOW 64			/* segments: an eighth of the receive queue */

/* Of the RMPP header */
enum { DATA = 1, ACK, STOP, ABORT };
enum { ACTIVE = 1, FIRST = 2, LAST = 4 };

struct rmpp_header {
	u8 version, type, flags, status;
	__be32 segment, length;
};

static inline struct rmpp_header *rmpp(struct fake_ib_packet *packet)
{
	return (struct rmpp_header *)(packet->mad + IB_MGMT_MAD_HDR);
}

/* The byte at a place of a transfer with this seed. */
static inline u8 rmpp_byte(u32 seed, u32 place)
{
	return place * 7 + place / 251 + seed;
}

/* Agents with RMPP in the kernel. */
int rmpp_open(struct mt_agent *agent, u32 port, u32 flags);
/* A transfer of so many bytes, which are to be recognized. */
struct ib_mad_send_buf *rmpp_send(struct mt_agent *agent, u16 lid, u8 method, u32 length, u32 seed, unsigned int timeout_ms,
				  int retries);
/* What was received is the transfer of that length and seed. */
bool rmpp_is(struct mt_event *event, u32 length, u32 seed);
/* What comes for port 1 from MT_FAR_LID: of DATA length is that of the payload, of an ACK the new window. */
void rmpp_deliver(u64 tid, u8 method, u8 type, u8 flags, u32 segment, u32 length);
/* The same, but with something else in it. */
void rmpp_make(struct fake_ib_packet *packet, u64 tid, u8 method, u8 type, u8 flags, u32 segment, u32 length);
/* The nth datagram with RMPP of a type that port 1 has sent, or NULL; how many there are. */
struct fake_ib_packet *rmpp_sent(u8 type, int nth);
int rmpp_count(u8 type);
bool rmpp_wait(u8 type, int count, unsigned int ms);

#endif
