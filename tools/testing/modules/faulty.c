// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on demand, so that it is known that the checker of the kernel's log sees them: the name of one, written to
 * /sys/module/faulty/parameters/fault, makes it happen. What is loaded for no other purpose may be broken by this.
 */
#define pr_fmt(fmt) "faulty: " fmt

#include <linux/completion.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/refcount.h>
#include <linux/slab.h>
#include <linux/timer.h>
#include <linux/workqueue.h>

static DEFINE_MUTEX(first);
static DEFINE_MUTEX(second);
static DEFINE_SPINLOCK(spin);
static DEFINE_RAW_SPINLOCK(raw);
static int __rcu *shared;
static int seven = 7;

static noinline void faulty_warn(void)
{
	WARN(seven, "faulty: this was to be expected\n");
}

static noinline void faulty_lock_order(void)
{
	mutex_lock(&first);
	mutex_lock(&second);
	mutex_unlock(&second);
	mutex_unlock(&first);
	mutex_lock(&second);
	mutex_lock(&first);
	mutex_unlock(&first);
	mutex_unlock(&second);
}

static noinline void faulty_atomic_sleep(void)
{
	spin_lock(&spin);
	might_sleep();
	spin_unlock(&spin);
}

static noinline void faulty_atomic_schedule(void)
{
	preempt_disable();
	schedule();
	preempt_enable();
}

static noinline void faulty_wait_context(void)
{
	raw_spin_lock(&raw);
	spin_lock(&spin);
	spin_unlock(&spin);
	raw_spin_unlock(&raw);
}

static noinline void faulty_unlock_balance(void)
{
	mutex_lock(&first);
	mutex_release(&first.dep_map, _RET_IP_);
	mutex_unlock(&first);
}

static noinline void faulty_freed_lock(void)
{
	struct mutex *lock = kmalloc(sizeof(*lock), GFP_KERNEL);

	mutex_init(lock);
	mutex_lock(lock);
	kfree(lock);
}

static noinline void faulty_key(void)
{
	struct {
		spinlock_t lock;
	} *object = kzalloc(sizeof(*object), GFP_KERNEL);

	/* Never initialised. */
	spin_lock(&object->lock);
	spin_unlock(&object->lock);
	kfree(object);
}

static noinline void faulty_key_not_registered(void)
{
	struct {
		spinlock_t lock;
		struct lock_class_key key;
	} *object = kzalloc(sizeof(*object), GFP_KERNEL);

	spin_lock_init(&object->lock);
	lockdep_set_class(&object->lock, &object->key);
	kfree(object);
}

static noinline void faulty_rcu(void)
{
	WRITE_ONCE(seven, rcu_dereference(shared) ? 7 : 8);
}

static void locks_in_softirq(struct timer_list *unused)
{
	spin_lock(&spin);
	spin_unlock(&spin);
}
static DEFINE_TIMER(softirq, locks_in_softirq);

static noinline void faulty_irq_state(void)
{
	spin_lock(&spin);
	spin_unlock(&spin);
	mod_timer(&softirq, jiffies + 1);
	msleep(100);
}

static noinline void faulty_ubsan_shift(void)
{
	WRITE_ONCE(seven, 7 << (READ_ONCE(seven) + 64));
}

static noinline void faulty_ubsan_bounds(void)
{
	static int four[4];

	WRITE_ONCE(four[READ_ONCE(seven) & 3], 1);
	WRITE_ONCE(four[4 + (READ_ONCE(seven) & 3)], 1);
}

static noinline void faulty_refcount(void)
{
	refcount_t count = REFCOUNT_INIT(1);

	if (refcount_dec_and_test(&count))
		refcount_inc(&count);
}

static noinline void faulty_list(void)
{
	LIST_HEAD(head);
	struct list_head *entry = kzalloc(sizeof(*entry), GFP_KERNEL);

	list_add(entry, &head);
	entry->next = NULL;
	list_del(entry);
}

static noinline void faulty_slab(void)
{
	u8 *bytes = kmalloc(20, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(bytes);
	bytes[33] = 1;
	kfree(bytes);
}

static noinline void faulty_use_after_free(void)
{
	u8 *bytes = kmalloc(20, GFP_KERNEL);

	OPTIMIZER_HIDE_VAR(bytes);
	kfree(bytes);
	WRITE_ONCE(seven, READ_ONCE(bytes[9]));
}

static noinline void faulty_cache(void)
{
	struct kmem_cache *cache = kmem_cache_create("faulty", 100, 0, 0, NULL);

	kmem_cache_alloc(cache, GFP_KERNEL);
	kmem_cache_destroy(cache);
}

static noinline void faulty_odebug(void)
{
	struct timer_list *timer = kmalloc(sizeof(*timer), GFP_KERNEL);

	timer_setup(timer, locks_in_softirq, 0);
	mod_timer(timer, jiffies + 100 * HZ);
	kfree(timer);
}

static noinline void faulty_leak(void)
{
	int i;

	for (i = 0; i < 10; i++) {
		int *lost = kmalloc(100, GFP_KERNEL);

		OPTIMIZER_HIDE_VAR(lost);
		memset(lost, 0x5a, 100);
	}
}

static noinline void faulty_preempt(void)
{
	WRITE_ONCE(seven, smp_processor_id() + 7);
}

static int sleeper(void *unused)
{
	schedule_timeout_uninterruptible(12 * HZ);
	return 0;
}

static noinline void faulty_hung_task(void)
{
	kthread_run(sleeper, NULL, "faulty");
}

static void stuck(struct work_struct *unused)
{
	unsigned long end = jiffies + 12 * HZ;

	preempt_disable();
	while (time_before(jiffies, end))
		cpu_relax();
	preempt_enable();
}
static DECLARE_WORK(stuck_work, stuck);

static noinline void faulty_lockup(void)
{
	schedule_work(&stuck_work);
}

static noinline void faulty_oops(void)
{
	int *nothing = NULL;

	OPTIMIZER_HIDE_VAR(nothing);
	WRITE_ONCE(*nothing, 1);
}

static noinline void faulty_bug(void)
{
	BUG_ON(seven);
}

static noinline void faulty_trace(void)
{
	dump_stack();
}

#define FAULT(name) { #name, faulty_##name }

static const struct {
	const char *name;
	void (*function)(void);
} faults[] = {
	FAULT(warn), FAULT(lock_order), FAULT(atomic_sleep), FAULT(atomic_schedule), FAULT(wait_context),
	FAULT(unlock_balance), FAULT(freed_lock), FAULT(key), FAULT(key_not_registered), FAULT(rcu), FAULT(irq_state),
	FAULT(ubsan_shift), FAULT(ubsan_bounds), FAULT(refcount), FAULT(list), FAULT(slab), FAULT(use_after_free),
	FAULT(cache), FAULT(odebug), FAULT(leak), FAULT(preempt), FAULT(hung_task), FAULT(lockup), FAULT(oops), FAULT(bug),
	FAULT(trace),
};

static int chosen;
static struct completion done;

/* On a thread, which an oops may kill. */
static int run(void *unused)
{
	faults[chosen].function();
	complete(&done);
	return 0;
}

static int fault_set(const char *value, const struct kernel_param *param)
{
	struct task_struct *thread;
	int i;

	for (i = 0; i < ARRAY_SIZE(faults) && !sysfs_streq(value, faults[i].name); i++)
		;
	if (i == ARRAY_SIZE(faults))
		return -EINVAL;
	chosen = i;
	init_completion(&done);
	thread = kthread_run(run, NULL, "faulty/%s", faults[i].name);
	if (IS_ERR(thread))
		return PTR_ERR(thread);
	return wait_for_completion_timeout(&done, HZ) ? 0 : -EINTR;
}

static const struct kernel_param_ops fault_ops = { .set = fault_set };
module_param_cb(fault, &fault_ops, NULL, 0200);

MODULE_DESCRIPTION("Faults on demand");
MODULE_LICENSE("GPL");
