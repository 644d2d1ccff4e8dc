// SPDX-License-Identifier: GPL-2.0

//! Merging a driver's tables of methods into the device's: `ib_set_device_ops`.
//!
//! C header: `include/rdma/ib_verbs.h`.

use rdma_bindings::ib_device_ops;

use super::{comp_cntr::with_comp_cntr_ops, Device};

/// Takes over the members of `from` that `to` has not yet, in groups: the first table that sets a member wins.
///
/// Where a header has a member that no group has, this does not compile; of a further bit nothing is noticed.
macro_rules! take {
    ($(methods: $($method:ident)*; pointers: $($pointer:ident)*; sizes: $($size:ident)*;)* from: $from:ident; to: $to:ident) => {
        let ib_device_ops {
            $($($method: _,)* $($pointer: _,)* $($size: _,)*)*
            owner: _, driver_id: _, uverbs_abi_ver: _, _bitfield_1: _, _bitfield_align_1: _,
        } = $from;
        $(
            $( if $to.$method.is_none() { $to.$method = $from.$method; } )*
            $( if $to.$pointer.is_null() { $to.$pointer = $from.$pointer; } )*
            $( if $to.$size == 0 { $to.$size = $from.$size; } )*
        )*
    };
}

impl Device {
    /// Adds the methods of `from` that the device does not have yet.
    ///
    /// # Safety
    ///
    /// The device is not registered, and only this thread accesses its methods.
    pub unsafe fn merge_ops(&self, from: &ib_device_ops) {
        // SAFETY: By the safety requirements.
        let to = unsafe { &mut (*self.as_raw()).ops };
        if from.driver_id != rdma_bindings::RDMA_DRIVER_UNKNOWN {
            to.driver_id = from.driver_id;
        }
        if !from.owner.is_null() {
            to.owner = from.owner;
        }
        if from.uverbs_abi_ver != 0 {
            to.uverbs_abi_ver = from.uverbs_abi_ver;
        }
        let no_binding = to.uverbs_no_driver_id_binding() | from.uverbs_no_driver_id_binding();
        to.set_uverbs_no_driver_id_binding(no_binding);
        let robust = to.uverbs_robust_udata() | from.uverbs_robust_udata();
        to.set_uverbs_robust_udata(robust);
        with_comp_cntr_ops! { take! {
            methods:
            add_gid add_sub_dev advise_mr alloc_dm alloc_dmah alloc_hw_device_stats
            alloc_hw_port_stats alloc_mr alloc_mr_integrity alloc_mw alloc_pd alloc_rdma_netdev
            alloc_ucontext alloc_xrcd attach_mcast check_mr_status counter_alloc_stats
            counter_bind_qp counter_dealloc counter_init counter_unbind_qp counter_update_stats
            create_ah create_counters create_cq create_flow create_qp create_rwq_ind_table
            create_srq create_user_ah create_user_cq create_wq dealloc_dm dealloc_dmah
            dealloc_driver dealloc_mw dealloc_pd dealloc_ucontext dealloc_xrcd del_gid
            del_sub_dev dereg_mr destroy_ah destroy_counters destroy_cq destroy_flow
            destroy_flow_action destroy_qp destroy_rwq_ind_table destroy_srq destroy_wq
            detach_mcast disassociate_ucontext drain_rq drain_sq enable_driver
            fill_res_cm_id_entry fill_res_cq_entry fill_res_cq_entry_raw fill_res_mr_entry
            fill_res_mr_entry_raw fill_res_qp_entry fill_res_qp_entry_raw fill_res_srq_entry
            fill_res_srq_entry_raw fill_stat_mr_entry get_dev_fw_str get_dma_mr get_hw_stats
            get_link_layer get_netdev get_numa_node get_port_immutable get_vf_config get_vf_guid
            get_vf_stats iw_accept iw_add_ref iw_connect iw_create_listen iw_destroy_listen
            iw_get_qp iw_reject iw_rem_ref map_mr_sg map_mr_sg_pi mmap mmap_free mmap_get_pfns
            modify_ah modify_cq modify_device modify_hw_stat modify_port modify_qp modify_srq
            modify_wq peek_cq pgoff_to_mmap_entry poll_cq post_destroy_cq post_recv post_send
            post_srq_recv pre_destroy_cq process_mad query_ah query_device query_gid query_pkey
            query_port query_port_speed query_qp query_srq query_ucontext rdma_netdev_get_params
            read_counters reg_dm_mr reg_user_mr reg_user_mr_dmabuf report_port_event
            req_notify_cq rereg_user_mr resize_user_cq set_vf_guid set_vf_link_state
            ufile_hw_cleanup;
            pointers: device_group port_groups;
            sizes:
            size_ib_ah size_ib_counters size_ib_cq size_ib_dmah size_ib_mw size_ib_pd size_ib_qp
            size_ib_rwq_ind_table size_ib_srq size_ib_ucontext size_ib_xrcd size_rdma_counter;
            from: from; to: to
        } }
    }

    /// Sets whether the device has all methods that clients in the kernel need. Called during registration.
    ///
    /// # Safety
    ///
    /// The device is being made or registered by this thread alone, and no other code reads the members
    /// that are set here yet.
    pub unsafe fn check_mandatory_ops(&self) {
        let ops = self.ops();
        let all = ops.query_device.is_some()
            && ops.query_port.is_some()
            && ops.alloc_pd.is_some()
            && ops.dealloc_pd.is_some()
            && ops.create_qp.is_some()
            && ops.modify_qp.is_some()
            && ops.destroy_qp.is_some()
            && ops.post_send.is_some()
            && ops.post_recv.is_some()
            && ops.create_cq.is_some()
            && ops.destroy_cq.is_some()
            && ops.poll_cq.is_some()
            && ops.req_notify_cq.is_some()
            && ops.get_dma_mr.is_some()
            && ops.reg_user_mr.is_some()
            && ops.dereg_mr.is_some()
            && ops.get_port_immutable.is_some();
        // SAFETY: By the safety requirements.
        unsafe { rdma_bindings::ib_device::set_kverbs_provider_raw(self.as_raw(), all.into()) };
    }
}
