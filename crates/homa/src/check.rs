//! The invariants of [homa 2.15], over the whole state.

use crate::config::Granting;
use crate::machine::Homa;

/// Panics when the state is not one that the rules lead to.
pub(crate) fn check(homa: &Homa) {
    let mut incoming = 0;
    let mut backlog = 0;
    let mut buffered = 0;
    let mut bufferless = 0;
    let mut open = 0;
    let mut answers = 0;
    let mut gaps = 0;
    let mut waiting = 0;
    for (slot, exchange) in homa.exchanges.iter() {
        let (out, inb) = (&exchange.out, &exchange.inb);
        if out.live {
            assert!(out.next <= out.granted, "{slot}: sent beyond what was granted");
            assert!(out.granted <= out.length, "{slot}: granted beyond the end");
            backlog += u64::from(out.granted - out.next);
            answers += if exchange.mine() { 0 } else { u64::from(out.length) };
        }
        assert_eq!(homa.eligible_places.has(slot), out.eligible(), "{slot}: eligible or not?");
        if inb.live {
            assert!(inb.received.end <= inb.granted, "{slot}: received beyond what was granted");
            assert!(inb.granted <= inb.length, "{slot}: granted beyond the end");
            let mut missing = 0;
            let mut last = 0;
            for (start, end) in homa.gaps.iter(&inb.received) {
                assert!(start < end && (last < start || last == 0), "{slot}: gaps in disorder");
                last = end;
                missing += end - start;
                gaps += 1;
            }
            assert!(last < inb.received.end || last == 0, "{slot}: a gap at the end");
            assert_eq!(inb.received.bytes, inb.received.end - missing, "{slot}: bytes received");
            assert!(inb.received.bytes < inb.length, "{slot}: complete and not delivered");
            incoming += u64::from(inb.outstanding());
            if inb.no_buffer {
                bufferless += 1;
            } else {
                buffered += u64::from(inb.length);
            }
            let scheduled = inb.active || homa.grants.places.has(slot);
            let independent = matches!(homa.config.granting, Granting::Independent { .. });
            let expected = inb.grantable() && !independent;
            assert_eq!(scheduled, expected, "{slot}: grantable means active or waiting");
            assert!(!(inb.active && homa.grants.places.has(slot)), "{slot}: active and waiting");
            waiting += u32::from(expected && !inb.active);
        }
        open += u32::from(exchange.mine() && exchange.asks);
    }
    assert_eq!(incoming, homa.incoming_bytes, "bytes on their way");
    assert_eq!(backlog, homa.backlog_bytes, "bytes to send");
    assert_eq!(answers, homa.answer_bytes, "bytes of answers");
    assert!(homa.strangers.len() <= homa.config.limits.strangers as usize, "strangers");
    assert_eq!(buffered, homa.buffered_bytes, "bytes with a buffer");
    assert_eq!(bufferless, homa.bufferless, "messages without a buffer");
    assert_eq!(open, homa.open_questions, "open questions");
    assert_eq!(gaps, homa.gaps.used(), "a gap leaked");
    assert_eq!(waiting, homa.grants.waiting, "messages that wait for grants");
    homa.eligible.check(&homa.eligible_places);
    homa.grants.ready.check(&homa.grants.ready_places);
    check_active(homa);
}

fn check_active(homa: &Homa) {
    let active = &homa.grants.active;
    let most = match homa.config.granting {
        Granting::Spaced { adaptive: Some(adaptive), .. } => adaptive.most,
        _ => homa.grants.overcommit,
    };
    assert!(active.len() <= usize::from(most), "more active messages than allowed");
    assert!(active.is_sorted_by_key(|a| a.key), "the active messages are out of order");
    let spaced = matches!(homa.config.granting, Granting::Spaced { .. });
    assert!(
        !spaced || active.is_sorted_by(|better, worse| better.rung > worse.rung),
        "two senders on one rung, or rungs out of order: {active:?}"
    );
    let shared = matches!(homa.config.granting, Granting::Windows { .. });
    for (slot, peer) in homa.peers.iter() {
        let count = active.iter().filter(|a| homa.exchanges[a.slot].peer == slot).count();
        assert_eq!(count, peer.active as usize, "active messages of a peer");
        assert!(count <= 1 || shared, "two active messages of one sender");
        let exchanges = homa.exchanges.iter().filter(|(_, e)| e.peer == slot).count();
        assert_eq!(exchanges, homa.peers.brief(slot).exchanges as usize, "exchanges of a peer");
        let ready = !peer.waiting.is_empty() && peer.active == 0;
        assert_eq!(homa.grants.ready_places.has(slot), ready, "who is ready for a grant");
        peer.waiting.check(&homa.grants.places);
    }
    for entry in active {
        let inb = &homa.exchanges[entry.slot].inb;
        assert!(inb.active, "an active message does not know it");
    }
    if homa.grants.ready.peek().is_some() {
        assert!(
            active.len() >= usize::from(homa.grants.overcommit),
            "a sender waits beside a free place"
        );
    }
}
