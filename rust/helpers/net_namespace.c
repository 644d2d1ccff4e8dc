// SPDX-License-Identifier: GPL-2.0

__rust_helper void rust_helper_get_net(struct net *net)
{
	get_net(net);
}

__rust_helper void rust_helper_put_net(struct net *net)
{
	put_net(net);
}

__rust_helper struct net *rust_helper_maybe_get_net(struct net *net)
{
	return maybe_get_net(net);
}

__rust_helper u64 rust_helper_net_cookie(const struct net *net)
{
	return net->net_cookie;
}

__rust_helper struct net_device *rust_helper_net_loopback_dev(const struct net *net)
{
	return net->loopback_dev;
}

/* A pernet area; NULL where the namespace is too new for the number. net_generic() does not look. */
__rust_helper void *rust_helper_net_generic_checked(const struct net *net, unsigned int id)
{
	struct net_generic *generic;
	void *area = NULL;

	rcu_read_lock();
	generic = rcu_dereference(net->gen);
	if (id < generic->s.len)
		area = generic->ptr[id];
	rcu_read_unlock();
	return area;
}
