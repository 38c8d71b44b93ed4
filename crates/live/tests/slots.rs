//! Slots: permits by the machine's order, and none lost.
#![allow(non_snake_case)]

use cavy_live::slots::{SlotError, Slots};
use cavy_live::{Kind, Policy};
use futures_executor::block_on;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

const SHORT: Kind = Kind(1);
const LONG: Kind = Kind(2);

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

fn slots(count: u16, policy: Policy) -> Slots {
    let builder = Slots::builder().slots(count).types(["short", "long"]).queue_limit(2);
    builder.policy(policy).build().expect("legal slots")
}

#[test]
fn permits__are_as_many_as_slots_and_overload_is_known_at_once() {
    let slots = slots(2, Policy::CentralFcfs);
    let a = block_on(slots.acquire(SHORT)).expect("free");
    let b = block_on(slots.acquire(LONG)).expect("free");
    assert_ne!(a.slot(), b.slot());
    let (first, second) = (slots.acquire(SHORT), slots.acquire(SHORT));
    let third = slots.acquire(SHORT);
    assert_eq!(third.refused(), Some(SlotError::Rejected));
    assert!(matches!(block_on(third), Err(SlotError::Rejected)));
    let (mut first, mut second) = (pin!(first), pin!(second));
    assert!(poll(first.as_mut()).is_pending());
    let freed = a.slot();
    drop(a);
    assert!(poll(second.as_mut()).is_pending(), "first come first served");
    match poll(first.as_mut()) {
        Poll::Ready(Ok(permit)) => assert_eq!(permit.slot(), freed),
        other => panic!("{other:?}"),
    }
}

#[test]
fn cancel__while_waiting_or_just_granted_loses_no_slot() {
    let slots = slots(1, Policy::CentralFcfs);
    let held = block_on(slots.acquire(LONG)).expect("free");
    let mut cancelled = Box::pin(slots.acquire(SHORT));
    assert!(poll(cancelled.as_mut()).is_pending());
    drop(cancelled);
    let granted = slots.acquire(SHORT);
    drop(held);
    // The slot was granted to the one that is gone, finished at once, and granted to this one,
    // which gives it up unpolled.
    assert_eq!(slots.stats().in_system, 1);
    drop(granted);
    assert_eq!(slots.stats().in_system, 0);
    assert!(block_on(slots.acquire(LONG)).is_ok());
    assert_eq!(slots.stats().types[1].cancelled, 2);
}

#[test]
fn priority__decides_who_is_next() {
    let slots = slots(1, Policy::FixedPriority);
    let held = block_on(slots.acquire(LONG)).expect("free");
    let mut long = Box::pin(slots.acquire(LONG));
    let mut short = Box::pin(slots.acquire(SHORT));
    drop(held);
    assert!(poll(long.as_mut()).is_pending());
    assert!(poll(short.as_mut()).is_ready());
    assert!(poll(long.as_mut()).is_ready(), "the permit was dropped with the answer");
}

#[test]
fn close__ends_those_who_wait() {
    let slots = slots(1, Policy::CentralFcfs);
    let held = block_on(slots.acquire(LONG)).expect("free");
    let waiting = slots.acquire(SHORT);
    slots.close();
    assert!(matches!(block_on(waiting), Err(SlotError::Closed)));
    assert!(matches!(block_on(slots.acquire(SHORT)), Err(SlotError::Closed)));
    drop(held);
    assert_eq!(slots.stats().in_system, 0);
}

#[test]
fn resize__grants_to_those_who_wait() {
    let slots = slots(1, Policy::CentralFcfs);
    let held = block_on(slots.acquire(LONG)).expect("free");
    let mut waiting = Box::pin(slots.acquire(SHORT));
    assert!(poll(waiting.as_mut()).is_pending());
    slots.resize(2).expect("a legal size");
    assert!(poll(waiting.as_mut()).is_ready());
    drop(held);
    assert!(slots.resize(0).is_err());
}

#[test]
fn wait__from_many_threads_never_holds_a_slot_twice() {
    let slots = Slots::builder().slots(3).types(["short", "long"]).queue_limit(100);
    let slots = slots.policy(cavy_live::darc()).build().expect("legal slots");
    let holders: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0)).collect();
    std::thread::scope(|scope| {
        for thread in 0..6_u16 {
            let (slots, holders) = (&slots, &holders);
            scope.spawn(move || {
                for n in 0..2_000_u16 {
                    let acquire = slots.acquire(Kind((thread + n) % 3));
                    if n % 5 == 0 {
                        continue;
                    }
                    let permit = acquire.wait().expect("room for all");
                    let slot = &holders[permit.slot() as usize];
                    assert_eq!(slot.fetch_add(1, Ordering::SeqCst), 0);
                    slot.fetch_sub(1, Ordering::SeqCst);
                }
            });
        }
    });
    let stats = slots.stats();
    assert_eq!(stats.in_system, 0);
    assert_eq!(stats.types.iter().map(|of| of.finished).sum::<u64>(), 9_600);
    assert_eq!(stats.types.iter().map(|of| of.cancelled).sum::<u64>(), 2_400);
}
