//! Stewards decide for a CRT whose coordinator does not ([dast 2.9]).

use super::*;

impl Dast {
    pub(super) fn resolve_late(&mut self) {
        if !self.config.decision_log {
            return;
        }
        let (now, after) = (self.now, self.config.crt_after);
        self.with_steward(|node, steward| {
            if !steward.serves() {
                return;
            }
            let layout = node.config.layout;
            let direct = !node.config.commit_via_steward;
            let mut late = Vec::new();
            for (attempt, pending) in &mut steward.table {
                let home = layout.region_of_node(pending.coordinator);
                let failed = home == node.region
                    && steward.chosen.live.binary_search(&pending.coordinator).is_err();
                if pending.f.is_none() && (failed || now.since(pending.since) >= after) {
                    pending.since = now;
                    if let Some(txn) = &pending.txn {
                        late.push((home, *attempt, txn.clone()));
                    }
                }
                if let Some(f) = pending.f
                    && direct
                    && now.since(pending.since) >= after
                {
                    pending.since = now;
                    node.repeat_commit(pending, *attempt, f);
                }
            }
            for (home, attempt, txn) in late {
                if home == node.region {
                    node.begin_resolution(steward, txn, attempt);
                } else {
                    node.tell_stewards(home, true, &Body::Resolve { txn, attempt });
                }
            }
            let stuck = steward.resolving.iter().filter(|(_, r)| now.since(r.since) >= after);
            let stuck: Vec<_> = stuck.map(|(a, r)| (*a, r.txn.clone())).collect();
            for (attempt, txn) in stuck {
                steward.resolving.remove(&attempt);
                node.begin_resolution(steward, txn, attempt);
            }
            while steward.resolved.len() > 4_096 {
                steward.resolved.pop_first();
            }
        });
    }

    pub(super) fn home_replicas(&self, attempt: Attempt) -> Vec<Node> {
        let layout = self.config.layout;
        let shard = layout.shard_of(attempt.coordinator);
        shard.into_iter().flat_map(|shard| layout.replicas_of(shard)).collect()
    }

    pub(super) fn begin_resolution(
        &mut self,
        steward: &mut Steward,
        txn: Arc<Txn>,
        attempt: Attempt,
    ) {
        if self.config.layout.region_of_node(attempt.coordinator) != self.region {
            return;
        }
        if let Some(value) = steward.resolved.get(&attempt).copied() {
            self.tell_outcome(&txn, attempt, value);
            self.carry_out(steward, attempt, value);
            return;
        }
        if steward.resolving.contains_key(&attempt) {
            return;
        }
        let round = self.now.as_ns() / 1_000_000 + 1;
        let ballot = Ballot { round, node: self.me.0 };
        let resolution = Resolution {
            txn,
            ballot,
            heard: BTreeSet::new(),
            found: None,
            proposed: false,
            accepted: BTreeSet::new(),
            since: self.now,
        };
        steward.resolving.insert(attempt, resolution);
        let replicas = self.home_replicas(attempt);
        self.send_all(replicas, &Body::AskDecision { attempt, ballot });
    }

    pub(super) fn told_decision(
        &mut self,
        steward: &mut Steward,
        from: Node,
        attempt: Attempt,
        ballot: Ballot,
        state: Acceptor,
    ) {
        let majority = self.config.layout.majority() as usize;
        let Some(resolution) = steward.resolving.get_mut(&attempt) else { return };
        if resolution.ballot != ballot || resolution.proposed {
            return;
        }
        resolution.heard.insert(from);
        resolution.found = resolution.found.max(state.accepted);
        if resolution.heard.len() >= majority {
            resolution.proposed = true;
            // What may have been told is told; what nobody accepted is taken back.
            let value = resolution.found.and_then(|(_, value)| value);
            let replicas = self.home_replicas(attempt);
            self.send_all(replicas, &Body::Decide { attempt, ballot, value });
        }
    }

    pub(super) fn resolution_accepted(
        &mut self,
        steward: &mut Steward,
        from: Node,
        attempt: Attempt,
        ballot: Ballot,
        accepted: bool,
    ) {
        let majority = self.config.layout.majority() as usize;
        let Some(resolution) = steward.resolving.get_mut(&attempt) else { return };
        if resolution.ballot != ballot || !accepted {
            return;
        }
        resolution.accepted.insert(from);
        if resolution.accepted.len() < majority {
            return;
        }
        let value = resolution.found.and_then(|(_, value)| value);
        let txn = resolution.txn.clone();
        steward.resolving.remove(&attempt);
        steward.resolved.insert(attempt, value);
        self.tell_outcome(&txn, attempt, value);
        match value {
            Some(f) => self.commit_in_region(steward, attempt, f),
            None => self.abort_in_region(steward, attempt),
        }
    }

    /// What was decided before holds here too, where the attempt is not finished: nodes that came
    /// back while the view changed have not heard it.
    pub(super) fn carry_out(&mut self, steward: &mut Steward, attempt: Attempt, value: Option<Ts>) {
        let open = steward.table.get(&attempt).is_some_and(|pending| pending.f.is_none());
        match value {
            Some(f) if open => self.commit_in_region(steward, attempt, f),
            None if open => self.abort_in_region(steward, attempt),
            _ => {}
        }
    }

    pub(super) fn tell_outcome(&mut self, txn: &Arc<Txn>, attempt: Attempt, value: Option<Ts>) {
        let layout = self.config.layout;
        let own_region = self.region;
        let regions = layout.regions_of(txn).filter(|region| *region != own_region);
        let regions: Vec<Region> = regions.collect();
        for region in regions {
            let body = match value {
                Some(f) => Body::Commit { attempt, f },
                None => Body::Abort { attempt },
            };
            self.tell_stewards(region, true, &body);
        }
        self.send(attempt.coordinator, Body::Outcome { attempt, value });
    }
}
