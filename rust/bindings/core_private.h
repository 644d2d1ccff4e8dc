/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the modules of the RDMA core owe each other and no public header declares: exported functions, and the
 * structures that they take. The names, the types and the order of the members are contract.
 *
 * Sorted by subject.
 */
#ifndef FERROBAND_CORE_PRIVATE_H
#define FERROBAND_CORE_PRIVATE_H

#include <linux/cgroup_rdma.h>
#include <rdma/ib_verbs.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>

struct rdma_dev_addr;

/* Clients: what get_nl_info() and get_global_nl_info() of struct ib_client fill in. */
struct ib_client_nl_info {
	struct sk_buff *nl_msg;
	struct device *cdev;
	u32 port;
	u64 abi;
};

/* The rdma cgroup. */
int ib_rdmacg_try_charge(struct ib_rdmacg_object *cg_obj, struct ib_device *device,
			 enum rdmacg_resource_type resource_index);
void ib_rdmacg_uncharge(struct ib_rdmacg_object *cg_obj, struct ib_device *device,
			enum rdmacg_resource_type resource_index);

/* Caches and addresses. */
int ib_cache_gid_parse_type_str(const char *buf);
const char *ib_cache_gid_type_str(enum ib_gid_type gid_type);
void ib_get_cached_subnet_prefix(struct ib_device *device, u32 port_num, u64 *sn_pfx);
unsigned long roce_gid_type_mask_support(struct ib_device *ib_dev, u32 port);
void rdma_copy_src_l2_addr(struct rdma_dev_addr *dev_addr, const struct net_device *dev);

/* Queue pairs. */
struct ib_qp *ib_create_qp_user(struct ib_device *dev, struct ib_pd *pd, struct ib_qp_init_attr *attr,
				struct uverbs_attr_bundle *uattrs, struct ib_uqp_object *uobj,
				const char *caller);
void ib_qp_usecnt_inc(struct ib_qp *qp);
void ib_qp_usecnt_dec(struct ib_qp *qp);

/* Resource tracking. */
void rdma_restrack_new(struct rdma_restrack_entry *res, enum rdma_restrack_type type);
void rdma_restrack_set_name(struct rdma_restrack_entry *res, const char *caller);
void rdma_restrack_parent_name(struct rdma_restrack_entry *dst, const struct rdma_restrack_entry *parent);
void rdma_restrack_add(struct rdma_restrack_entry *res);
void rdma_restrack_del(struct rdma_restrack_entry *res);
void rdma_restrack_begin_del(struct rdma_restrack_entry *res);
void rdma_restrack_abort_del(struct rdma_restrack_entry *res);
void rdma_restrack_commit_del(struct rdma_restrack_entry *res);
void rdma_restrack_sync(struct rdma_restrack_entry *res);

/* Netlink and sysfs. */
bool rdma_nl_get_privileged_qkey(void);
int ib_port_register_client_groups(struct ib_device *ibdev, u32 port_num,
				   const struct attribute_group **groups);
void ib_port_unregister_client_groups(struct ib_device *ibdev, u32 port_num,
				      const struct attribute_group **groups);

/* Commands of user space. */
struct ib_udata *uverbs_get_cleared_udata(struct uverbs_attr_bundle *attrs);

/* Memory that user space maps. */
struct rdma_umap_priv {
	struct vm_area_struct *vma;
	struct list_head list;
	struct rdma_user_mmap_entry *entry;
};

void rdma_umap_priv_init(struct rdma_umap_priv *priv, struct vm_area_struct *vma,
			 struct rdma_user_mmap_entry *entry);

#endif
