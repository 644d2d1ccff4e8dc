// SPDX-License-Identifier: GPL-2.0
/* For MADs: what security modules say, where the kernel asks them about InfiniBand. */
#include <linux/security.h>

__rust_helper int rust_helper_ib_mad_security_alloc(struct ib_mad_agent *agent)
{
#ifdef CONFIG_SECURITY_INFINIBAND
	return security_ib_alloc_security(&agent->security);
#else
	return 0;
#endif
}

__rust_helper void rust_helper_ib_mad_security_free(struct ib_mad_agent *agent)
{
#ifdef CONFIG_SECURITY_INFINIBAND
	security_ib_free_security(agent->security);
#endif
}

__rust_helper int rust_helper_ib_mad_security_smp(struct ib_mad_agent *agent)
{
#ifdef CONFIG_SECURITY_INFINIBAND
	return security_ib_endport_manage_subnet(agent->security, dev_name(&agent->device->dev), agent->port_num);
#else
	return 0;
#endif
}

__rust_helper int rust_helper_ib_mad_security_pkey(struct ib_mad_agent *agent, u64 subnet_prefix, u16 pkey)
{
#ifdef CONFIG_SECURITY_INFINIBAND
	return security_ib_pkey_access(agent->security, subnet_prefix, pkey);
#else
	return 0;
#endif
}

/* Address vectors of datagrams, whose type depends on the port. */
__rust_helper enum rdma_ah_attr_type rust_helper_rdma_ah_find_type(struct ib_device *device, u32 port)
{
	return rdma_ah_find_type(device, port);
}

__rust_helper void rust_helper_rdma_ah_set_dlid(struct rdma_ah_attr *attr, u32 dlid)
{
	rdma_ah_set_dlid(attr, dlid);
}

__rust_helper void rust_helper_rdma_ah_set_path_bits(struct rdma_ah_attr *attr, u8 path_bits)
{
	rdma_ah_set_path_bits(attr, path_bits);
}
