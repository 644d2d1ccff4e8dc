// SPDX-License-Identifier: GPL-2.0

/*
 * Nothing here may need the modules udp_tunnel and ip6_udp_tunnel: the helpers are linked into every module.
 */

__rust_helper void *rust_helper_rcu_dereference_sk_user_data(const struct sock *sk)
{
	return rcu_dereference_sk_user_data(sk);
}

/* From now on packets of the socket are not for the tunnel, except those that are in its callback already. */
__rust_helper void rust_helper_udp_tunnel_stop(struct sock *sk)
{
	WRITE_ONCE(udp_sk(sk)->encap_rcv, NULL);
}

/*
 * From now on the network stack may put datagrams together that a device has received one by one, and a packet that is marked as a
 * tunnel's (skb_keep_segments()) is not segmented for this socket.
 */
__rust_helper void rust_helper_udp_enable_gro(struct sock *sk)
{
	udp_set_bit(GRO_ENABLED, sk);
	udp_set_bit(ACCEPT_L4, sk);
}

__rust_helper struct net *rust_helper_sock_net(const struct sock *sk)
{
	return sock_net(sk);
}
