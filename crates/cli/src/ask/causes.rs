//! The causes of slow tails, one for each system, and the questions that tell them apart.

/// Something that a user can say without measuring.
#[derive(Debug)]
pub struct Question {
    /// Its name for `--yes` and `--no`.
    pub key: &'static str,
    /// The question.
    pub text: &'static str,
}

/// What a yes says about a cause.
#[derive(Debug)]
pub struct Sign {
    /// The key of the question.
    pub question: &'static str,
    /// How much a yes counts.
    pub points: u32,
    /// A no rules the cause out.
    pub needed: bool,
    /// What a yes means, as a sentence without its end.
    pub evidence: &'static str,
}

/// A cause of slow tails, with its remedy.
#[derive(Debug)]
pub struct Cause {
    /// The system that is its remedy, as `cavy list` has it.
    pub system: &'static str,
    /// What waits for what.
    pub waits: &'static str,
    /// What may be done.
    pub remedy: &'static str,
    /// The template of the plan to run.
    pub template: &'static str,
    /// The page to read.
    pub page: &'static str,
    /// What speaks for it.
    pub signs: &'static [Sign],
}

impl Cause {
    /// Points if all signs are there.
    pub fn points_max(&self) -> u32 {
        self.signs.iter().map(|sign| sign.points).sum()
    }
}

/// All questions, in the order in which they are asked.
pub const QUESTIONS: &[Question] = &[
    Question {
        key: "mixed",
        text: "Do requests of one server differ by ten times or more in the work they need?",
    },
    Question {
        key: "busy",
        text: "Is that server's pool, or are its cores, busy for more than a third of the time?",
    },
    Question {
        key: "sizes",
        text: "Do short messages share links with transfers a hundred times as long?",
    },
    Question {
        key: "links",
        text: "Are links of your data centre busy for more than half of the time, at times?",
    },
    Question {
        key: "fan_in",
        text: "Does one request make ten or more hosts answer it at the same moment?",
    },
    Question {
        key: "stalls",
        text: "Are slow requests slow by about the same time, such as 40 ms, 200 ms or 1 s?",
    },
    Question { key: "chain", text: "Does a request pass through several services of yours?" },
    Question {
        key: "which",
        text: "Could you make one of them faster, and do not know which is worth it?",
    },
    Question {
        key: "regions",
        text: "Do transactions touch data of more than one region or data centre?",
    },
    Question {
        key: "local_waits",
        text: "Are transactions within one region slow while others cross regions?",
    },
    Question {
        key: "choose",
        text: "Does a client choose among servers or peers before it has talked to them?",
    },
    Question {
        key: "far",
        text: "Do some clients end at a server that is farther away than the nearest?",
    },
    Question {
        key: "spread",
        text: "Does every query ask many machines, each for a part of the data?",
    },
    Question {
        key: "parts",
        text: "Would you change the number of parts by load or by machines, if you could?",
    },
];

/// All causes.
pub const CAUSES: &[Cause] = &[
    Cause {
        system: "persephone",
        waits: "Short requests wait behind long ones for a worker of one server.",
        remedy: "Keep a worker free for short requests (DARC), or schedule in another order.",
        template: "minimal",
        page: "docs/guides/protect-short-requests.md",
        signs: &[
            Sign {
                question: "mixed",
                points: 3,
                needed: true,
                evidence: "Requests differ by ten times or more, so that a short one waits long \
                           for one long one",
            },
            Sign {
                question: "busy",
                points: 2,
                needed: true,
                evidence: "Above a third of the load all workers are busy at once often enough to \
                           decide the 99.9th percentile",
            },
        ],
    },
    Cause {
        system: "homa",
        waits: "Short messages wait behind long transfers in a switch.",
        remedy: "A transport that lets short messages overtake, or priorities in the switch.",
        template: "network",
        page: "docs/guides/compare-transports.md",
        signs: &[
            Sign {
                question: "sizes",
                points: 3,
                needed: true,
                evidence: "Long transfers fill the queue that short messages pass",
            },
            Sign {
                question: "links",
                points: 2,
                needed: false,
                evidence: "Queues form where links are busy",
            },
        ],
    },
    Cause {
        system: "incast",
        waits: "A connection waits for a timer, after many answers at once overflowed a port.",
        remedy: "Timeouts as short as the network's round trip, or fewer answers at once.",
        template: "answers",
        page: "docs/guides/answers-collide.md",
        signs: &[
            Sign {
                question: "fan_in",
                points: 2,
                needed: false,
                evidence: "Answers that come at once overflow the port to the asker",
            },
            Sign {
                question: "stalls",
                points: 3,
                needed: true,
                evidence: "Equal stalls are timers: 200 ms is the least retransmission timeout of \
                           Linux, 40 ms its delayed acknowledgement, 1 s a lost handshake",
            },
        ],
    },
    Cause {
        system: "slowpoke",
        waits: "Requests wait in a service, and it is not known in which a change would pay.",
        remedy: "Measure what a faster service would buy before you write it.",
        template: "services",
        page: "docs/guides/rank-running-services.md",
        signs: &[
            Sign {
                question: "chain",
                points: 2,
                needed: true,
                evidence: "Behind one bottleneck of several services stands the next",
            },
            Sign {
                question: "which",
                points: 3,
                needed: true,
                evidence: "You can change one and must choose",
            },
        ],
    },
    Cause {
        system: "dast",
        waits: "Transactions of one region wait for messages between regions.",
        remedy: "A protocol that orders local transactions without waiting for remote ones.",
        template: "regions",
        page: "docs/guides/transactions-across-regions.md",
        signs: &[
            Sign {
                question: "regions",
                points: 2,
                needed: true,
                evidence: "A message between regions takes tens of milliseconds",
            },
            Sign {
                question: "local_waits",
                points: 3,
                needed: false,
                evidence: "Local transactions pay for those that cross regions",
            },
        ],
    },
    Cause {
        system: "htrae",
        waits: "A client waits for a server or peer that is farther away than it need be.",
        remedy: "Predict round trips before anybody has asked, and choose by that.",
        template: "coords",
        page: "docs/guides/nearest-region.md",
        signs: &[
            Sign {
                question: "choose",
                points: 3,
                needed: true,
                evidence: "The choice is made without a measurement",
            },
            Sign {
                question: "far",
                points: 2,
                needed: false,
                evidence: "The choice is wrong for some",
            },
        ],
    },
    Cause {
        system: "roar",
        waits: "A query waits for the slowest of the machines that it asks.",
        remedy: "Choose how many machines a query asks, by load, and change it while running.",
        template: "search",
        page: "docs/guides/spread-a-search.md",
        signs: &[
            Sign {
                question: "spread",
                points: 3,
                needed: true,
                evidence: "A query is as slow as the slowest machine that it asks",
            },
            Sign {
                question: "parts",
                points: 2,
                needed: false,
                evidence: "The best number of parts depends on the load",
            },
        ],
    },
];
