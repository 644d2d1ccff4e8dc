/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the modules of the RDMA core owe each other and no public header declares: exported functions, and the
 * structures that they take. The names, the types and the order of the members are contract.
 *
 * Sorted by subject.
 */
#ifndef FERROBAND_CORE_PRIVATE_H
#define FERROBAND_CORE_PRIVATE_H

#include <linux/cdev.h>
#include <linux/cgroup_rdma.h>
#include <linux/completion.h>
#include <linux/mutex.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_smi.h>
#include <rdma/opa_smi.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>
#include <rdma/uverbs_ioctl.h>
#include <rdma/uverbs_types.h>

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

/* What rdma_cm has of an identifier; resource tracking reads it. */
struct rdma_id_private {
	struct rdma_cm_id id;
	struct rdma_bind_list *bind_list;
	struct hlist_node node;
	struct list_head device_item;
	struct list_head listen_item;
	struct list_head id_list_entry;
	struct cma_device *cma_dev;
	struct list_head mc_list;
	int internal_id;
	int state; /* enum rdma_cm_state */
	u8 restricted_node_type;
	spinlock_t lock;
	struct mutex qp_mutex;
	struct completion comp;
	refcount_t refcount;
	struct mutex handler_mutex;
	int backlog;
	int timeout_ms;
	struct ib_sa_query *query;
	int query_id;
	void *cm_id;
	u32 seq_num;
	u32 qkey;
	u32 qp_num;
	u32 options;
	u8 srq;
	u8 tos;
	u8 tos_set : 1;
	u8 timeout_set : 1;
	u8 min_rnr_timer_set : 1;
	u8 reuseaddr;
	u8 afonly;
	u8 timeout;
	u8 min_rnr_timer;
	u8 used_resolve_ip;
	enum ib_gid_type gid_type;
	struct rdma_restrack_entry res;
	struct rdma_ucm_ece ece;
};

/* What the tracepoints of MADs in user space read. */
struct ib_umad_port {
	struct ib_device *ib_dev;
	u32 port_num;
};

struct ib_umad_file {
	struct ib_umad_port *port;
};

/* What the tracepoints of MADs read. */
struct ib_mad_port_private {
	struct ib_device *device;
	int port_num;
};

struct ib_mad_qp_info {
	struct ib_mad_port_private *port_priv;
	struct ib_qp *qp;
};

struct ib_mad_agent_private {
	struct ib_mad_agent agent;
	struct ib_mad_reg_req *reg_req;
	struct ib_mad_qp_info *qp_info;
};

struct ib_mad_send_wr_private {
	struct ib_mad_agent_private *mad_agent_priv;
	struct ib_mad_send_buf send_buf;
	struct ib_ud_wr send_wr;
	__be64 tid;
	unsigned long timeout;
	int max_retries;
	int retries_left;
	int retry;
};

/* Netlink and sysfs. */
bool rdma_nl_get_privileged_qkey(void);
int ib_port_register_client_groups(struct ib_device *ibdev, u32 port_num,
				   const struct attribute_group **groups);
void ib_port_unregister_client_groups(struct ib_device *ibdev, u32 port_num,
				      const struct attribute_group **groups);

/* Commands of user space. */
struct ib_udata *uverbs_get_cleared_udata(struct uverbs_attr_bundle *attrs);

/* What ib_uverbs knows of its objects and methods; the objects are in the tree at uapi_key_obj(). */
struct uverbs_api {
	struct radix_tree_root radix;
};

/* Objects of user space: ib_uverbs_support. */
int uobj_destroy(struct ib_uobject *uobj, struct uverbs_attr_bundle *attrs);
struct ib_uobject *uverbs_get_uobject_from_file(u16 object_id, enum uverbs_obj_access access, s64 id,
						struct uverbs_attr_bundle *attrs);
void uverbs_finalize_object(struct ib_uobject *uobj, enum uverbs_obj_access access,
			    bool hw_obj_valid, bool commit, struct uverbs_attr_bundle *attrs);
void setup_ufile_idr_uobject(struct ib_uverbs_file *ufile);
void ib_uverbs_release_file(struct kref *ref);
int __uverbs_cleanup_ufile(struct ib_uverbs_file *ufile, enum rdma_remove_reason reason);

struct ib_uverbs_device {
	refcount_t refcount;
	u32 num_comp_vectors;
	struct completion comp;
	struct device dev;
	const struct attribute_group *groups[2];
	struct ib_device __rcu *ib_dev;
	int devnum;
	struct cdev cdev;
	struct rb_root xrcd_tree;
	struct mutex xrcd_tree_mutex;
	struct srcu_struct disassociate_srcu;
	struct mutex lists_mutex;
	struct list_head uverbs_file_list;
	struct uverbs_api *uapi;
};

/* Memory that lives as long as a command: each piece begins with the link to the one before it. */
struct bundle_alloc_head {
	struct_group_tagged(bundle_alloc_head_hdr, hdr,
		struct bundle_alloc_head *next;
	);
	u8 data[];
};

/* A command as ib_uverbs has it, around the attributes. */
struct bundle_priv {
	struct bundle_alloc_head_hdr alloc_head;
	struct bundle_alloc_head *allocated_mem;
	size_t internal_avail;
	size_t internal_used;

	struct radix_tree_root *radix;
	void __rcu **radix_slots;
	unsigned long radix_slots_len;
	u32 method_key;

	struct ib_uverbs_attr __user *user_attrs;
	struct ib_uverbs_attr *uattrs;

	DECLARE_BITMAP(uobj_finalize, UVERBS_API_ATTR_BKEY_LEN);
	DECLARE_BITMAP(spec_finalize, UVERBS_API_ATTR_BKEY_LEN);
	DECLARE_BITMAP(uobj_hw_obj_valid, UVERBS_API_ATTR_BKEY_LEN);

	/* Goes on in internal_buffer: the attributes. */
	struct uverbs_attr_bundle_hdr bundle;
	u64 internal_buffer[32];
};

/* Memory that user space maps. */
struct ib_uverbs_dmabuf_file {
	struct ib_uobject uobj;
#ifdef HAS_DMABUF_RELEASE_LOCK
	struct mutex dmabuf_release_lock;
#endif
	struct dma_buf *dmabuf;
	struct list_head dmabufs_elm;
	struct rdma_user_mmap_entry *mmap_entry;
	struct phys_vec phys_vec;
	struct p2pdma_provider *provider;
	struct kref kref;
	struct completion comp;
	u8 revoked : 1;
};

struct rdma_umap_priv {
	struct vm_area_struct *vma;
	struct list_head list;
	struct rdma_user_mmap_entry *entry;
};

void rdma_umap_priv_init(struct rdma_umap_priv *priv, struct vm_area_struct *vma,
			 struct rdma_user_mmap_entry *entry);

#endif
