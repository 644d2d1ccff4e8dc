// SPDX-License-Identifier: GPL-2.0

/* For identifiers of the connection manager: addresses and path records, in the layouts of programs. */

__rust_helper void rust_helper_rdma_addr_get_sgid(struct rdma_dev_addr *addr, union ib_gid *gid)
{
	rdma_addr_get_sgid(addr, gid);
}

__rust_helper void rust_helper_rdma_addr_get_dgid(struct rdma_dev_addr *addr, union ib_gid *gid)
{
	rdma_addr_get_dgid(addr, gid);
}

__rust_helper u16 rust_helper_ib_addr_get_pkey(struct rdma_dev_addr *addr)
{
	return ib_addr_get_pkey(addr);
}

/* These members begin a word of their own, which bindgen does not see. */
__rust_helper void rust_helper_cm_set_req_retries(struct ib_cm_req_event_param *param, u8 rnr_retry_count, bool srq)
{
	param->rnr_retry_count = rnr_retry_count;
	param->srq = srq;
}

/* A path record as on the wire, of an OPA fabric too. */
__rust_helper void rust_helper_sa_path_pack(struct sa_path_rec *path, void *record)
{
	struct sa_path_rec ib;

	if (path->rec_type == SA_PATH_REC_TYPE_OPA) {
		sa_convert_path_opa_to_ib(&ib, path);
		path = &ib;
	}
	ib_sa_pack_path(path, record);
}

/* The reverse; zeroes what the record has not. */
__rust_helper void rust_helper_sa_path_unpack(void *record, bool is_opa, struct sa_path_rec *path)
{
	struct sa_path_rec ib = { .rec_type = SA_PATH_REC_TYPE_IB };

	ib_sa_unpack_path(record, &ib);
	if (is_opa)
		sa_convert_path_ib_to_opa(path, &ib);
	else
		*path = ib;
}
