// SPDX-License-Identifier: GPL-2.0

__rust_helper struct workqueue_struct *
rust_helper_alloc_workqueue(const char *name, unsigned int flags, int max_active)
{
	return alloc_workqueue("%s", flags, max_active, name);
}

/* On this processor, or on any if it is offline. None goes offline while preemption is disabled. */
__rust_helper bool rust_helper_queue_work_online(unsigned int cpu, struct workqueue_struct *wq, struct work_struct *work)
{
	bool queued;

	preempt_disable();
	queued = queue_work_on(cpu < nr_cpu_ids && cpu_online(cpu) ? cpu : WORK_CPU_UNBOUND, wq, work);
	preempt_enable();
	return queued;
}

/* The number of the nth processor that is online, counted round and round. */
__rust_helper unsigned int rust_helper_nth_online_cpu(unsigned int n)
{
	unsigned int cpu = cpumask_nth(n % num_online_cpus(), cpu_online_mask);

	return cpu < nr_cpu_ids ? cpu : 0;
}
