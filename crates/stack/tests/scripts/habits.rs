//! Where the kernel does something else, and which RFC or habit lets it.

const BY_TIME: &str = "it finds losses by time (RFC 8985), and since 6.17 in no other way";
const BY_CHANCE: &str = "it finds losses by time (RFC 8985), and on a busy machine the second \
                         report comes a quarter of a round trip after the first";
const RECOVERY: &str = "it repairs by proportional rate reduction (RFC 6937) whatever it is told; \
                        ours is told not to, or counts from another moment";
const ABC: &str = "its window grows by all that is acknowledged (RFC 3465); ours by two segments \
                   for each acknowledgement";
const WHEEL: &str = "its timers are late by up to an eighth, as its wheel has it, so that a \
                     doubling falls behind what the script does next; RFC 6298 4 leaves the grain \
                     of the clock open";

/// Not always: only where the socket has memory for the segment in reserve, which its earlier
/// writes decide. `SO_MEMINFO` showed it: with less than 832 octets in reserve the segment went the
/// long way and was refused, with more it was taken, 120 of 120 times, and never when its window
/// was another one.
const PREDICTED: &str = "it takes the data of a segment with the number and the window that it \
                         expects, and looks at what is acknowledged only then (Van Jacobson's \
                         header prediction); RFC 5961 5.2 has the segment dropped";

/// A script by its name, and why Linux 6.18 differs.
pub const HABITS: &[(&str, &str)] = &[
    ("attack: an acknowledgement of long ago in a segment that is otherwise expected", PREDICTED),
    (
        "close: an end into a closed window",
        "its probe of a closed window bears nothing, so that an end waits for room; our end is the \
         octet that RFC 9293 3.8.6.1 wants a probe to have",
    ),
    ("alive: a silent peer is asked", WHEEL),
    ("alive: and given up", "it resets a peer that it gives up; RFC 9293 3.8.4 leaves it open"),
    (
        "alive: a shorter path",
        "it cuts anew across the borders of what it had sent (RFC 9293 3.8.1 lets it)",
    ),
    (
        "alive: a router that does not say",
        "it takes the shortest path there may be (552), where RFC 1191 7 has a table",
    ),
    (
        "close: we close first",
        "its TIME-WAIT may last longer by an eighth, as its wheel has it (RFC 9293 3.4.2 names \
         four minutes)",
    ),
    (
        "close: our end waits for what is written",
        "the end rides on the last segment; ours goes alone (RFC 9293 3.10.4 has both)",
    ),
    (
        "close: data for nobody",
        "a reset that answers a segment with ACK needs no ACK (RFC 9293 3.5.2)",
    ),
    (
        "data: Linux is quick again after disorder",
        "6.18 is quick again after duplicates, and not after disorder; ours follows [incast 2.7]",
    ),
    (
        "ecn: an answer with both flags is somebody's who repeats what it does not know",
        "6.18 reads this answer by AccECN (RFC 9768), and says by CWR that it came unmarked",
    ),
    (
        "ecn: the window is halved once a round trip, and the next new segment says so",
        "it reduces for marks over a round trip (RFC 6937), ours at once (RFC 3168 6.1.2)",
    ),
    (
        "ecn: a port that is full of half-open connections answers, and keeps no more",
        "it keeps one more than its backlog before it answers by cookies (RFC 4987)",
    ),
    // The first differed once in seven runs. The other three wait for the same reports, and have
    // not differed so far.
    ("loss: three segments above say that one is lost", BY_CHANCE),
    ("loss: two holes", BY_CHANCE),
    ("loss: limited transmit", BY_CHANCE),
    ("loss: a block in the middle of a segment marks only whole ones", BY_CHANCE),
    (
        "loss: NewReno without SACK",
        "it repairs at the fourth duplicate, one beyond its measure of reordering; RFC 5681 3.2 \
         has the third",
    ),
    ("loss: a timer doubles", WHEEL),
    (
        "loss: where timestamps allow it a doubling is forgotten",
        "without timestamps it forgets by Karn's rule (RFC 6298 5.7); the script asks for more",
    ),
    ("loss: a segment that was sent once forgets it", WHEEL),
    (
        "loss: a floor on the whole",
        "its floor is on the variance, where RFC 6298 2.4 has it on the whole [incast 0]",
    ),
    ("loss: a timer runs anew when the left edge moves and not for duplicates", BY_TIME),
    ("loss: what was reported stays reported over a timeout", BY_TIME),
    ("undo: Eifel: the window is back", ABC),
    ("loss: proportional: every second acknowledgement sends", RECOVERY),
    ("rack: a little disorder is waited for", RECOVERY),
    (
        "rack: a probe makes a hole visible",
        "the report may be of the probe's first copy (RFC 8985 6.2), so it waits for the timer",
    ),
    (
        "rack: a lone segment waits for a delayed acknowledgement",
        "it adds its least timeout to the probe of a lone segment, 400 ms here; ours adds the 200 \
         ms by which an acknowledgement may be late (RFC 8985 7.2)",
    ),
    (
        "open: after a lost SYN the window is one segment",
        "it begins as usual after a lost SYN (tcp_init_transfer); RFC 5681 3.1 has one segment",
    ),
    (
        "open: so is a SYN that is an end as well",
        "a SYN with FIN is a SYN to it, and is challenged (RFC 5961 4)",
    ),
    (
        "undo: a spurious timeout raises the estimate",
        "what the timestamp tells is one round trip more to it; RFC 4015 4 raises the estimate",
    ),
];
