//! Who is to be in the next view ([dast 2.9]).
//!
//! Replicas hold what was answered, in memory or in logs, so a steward that is too quick loses it.
//! It takes out only members that can be spared: those who stay hold together whatever may have
//! been answered ([`View::holds_what`]). Silence of everybody at once is a sign that the steward
//! itself stood still.

use super::*;

impl Asks {
    /// Without what it had in lives that are over, whose memory is of no use.
    fn of_use(self, node: Node, view: &View) -> Asks {
        let Brought { since, .. } = self.brought;
        let over = view.over.iter().find(|over| over.node == node && over.life >= since);
        let brought = match over {
            Some(over) => Brought { since: self.life.min(over.life + 1), rows: false },
            None => self.brought,
        };
        Asks { brought, ..self }
    }

    /// Whoever asks has what this earlier member had in memory.
    fn keeps(&self, member: &Member) -> bool {
        self.life > member.life && self.brought.since <= member.life
    }
}

impl Dast {
    /// This steward leads, and its view is in force.
    pub(in crate::dast) fn leads_in_force(&self) -> bool {
        self.steward.as_ref().is_some_and(Steward::serves)
    }

    /// Members that this steward would take out, and cannot spare.
    pub fn waits_for(&self) -> impl Iterator<Item = Node> + '_ {
        let leader = self.steward.as_ref().filter(|steward| steward.leads());
        let all = leader.map(|steward| {
            let gone = |member: &Member| self.must_go(steward, *member);
            steward.chosen.members().filter(gone).map(|member| member.node)
        });
        all.into_iter().flatten()
    }

    /// The channel to a replica broke. To one that leads that is as good as a failure.
    pub(in crate::dast) fn steward_lost(&mut self, peer: Node) {
        if let Some(steward) = &mut self.steward
            && steward.leads()
            && let Some(life) = steward.chosen.life_of(peer)
        {
            steward.suspects.insert(Member { node: peer, life });
            self.change_view_if_needed();
        }
    }

    /// A member says that it may have missed something of another one. Of two that say so of each
    /// other, the first is believed.
    pub(super) fn hears_of_loss(&mut self, steward: &mut Steward, from: Node, lost: Member) {
        let Some(life) = steward.chosen.life_of(from) else { return };
        let sound = !steward.suspects.contains(&Member { node: from, life });
        if sound && from != lost.node && steward.chosen.has(lost) {
            steward.suspects.insert(lost);
        }
    }

    pub(in crate::dast) fn steward_knows_ready(&mut self, member: Member) {
        if let Some(steward) = &mut self.steward {
            steward.ready.insert(member);
        }
    }

    /// How long a replica may be silent. One that was taken out though it had not failed gets more.
    fn patience(&self, steward: &Steward, node: Node) -> Span {
        let wronged = steward.given_up.get(&node).copied().unwrap_or(0);
        self.config.fail_after * (1 << wronged.min(3))
    }

    /// A member that has failed, as far as this steward can tell, or of which something is lost.
    fn must_go(&self, steward: &Steward, member: Member) -> bool {
        let patience = self.patience(steward, member.node);
        let heard = steward.heard.get(&member.node).copied().unwrap_or(self.now);
        let thawed = match &steward.phase {
            Phase::Freezing { acks, since, .. } => {
                acks.contains_key(&member.node) || self.now.since(*since) < patience
            }
            _ => true,
        };
        !thawed || self.now.since(heard) >= patience || self.is_lost(steward, member)
    }

    /// It lives another life, or something between it and others is lost.
    fn is_lost(&self, steward: &Steward, member: Member) -> bool {
        let another = steward.joins.get(&member.node).is_some_and(|asks| asks.life > member.life);
        another || steward.suspects.contains(&member) || steward.lost_lives.contains(&member)
    }

    /// Those who were taken out and may come back as they are, which others would not survive: no
    /// view without them was ever in force, and they are heard. One that failed meanwhile and has
    /// what it had comes back as another life.
    fn put_back(&self, steward: &Steward, next: &mut View) {
        let Some(first) = steward.before.first().filter(|_| !steward.serves()) else { return };
        let everywhere = |is: &dyn Fn(&Member) -> bool| {
            steward.before.iter().all(|view| view.members.iter().any(is))
        };
        for (member, brought) in first.members.iter().zip(&first.brought) {
            let heard = steward.heard.get(&member.node).copied().unwrap_or_default();
            let alive = self.now.since(heard) < self.config.fail_after;
            let asks = steward.joins.get(&member.node);
            let asks = asks.map(|asks| asks.of_use(member.node, next));
            if let Some(asks) = asks.filter(|asks| asks.keeps(member))
                && everywhere(&|m| m.node == member.node && asks.keeps(m))
            {
                next.add(Member { node: member.node, life: asks.life }, asks.brought);
            } else if everywhere(&|m| m == member) && alive && !self.is_lost(steward, *member) {
                next.add(*member, *brought);
            }
        }
    }

    /// Members that failed, and have come back with what they had, take their own places.
    fn bring_heirs(&self, steward: &Steward, next: &mut View) {
        for (node, asks) in &steward.joins {
            let asks = asks.of_use(*node, next);
            let member = next.life_of(*node).map(|life| Member { node: *node, life });
            if member.is_some_and(|member| asks.keeps(&member)) {
                next.replace(Member { node: *node, life: asks.life }, asks.brought);
            }
        }
    }

    pub(super) fn hears_of_join(&mut self, steward: &mut Steward, from: Node, asks: Asks) {
        let known = steward.joins.entry(from).or_insert(asks);
        if asks.life > known.life {
            *known = asks;
        }
        if asks.brought.since < asks.life {
            steward.heard.insert(from, self.now);
        }
    }

    /// The chosen view without those who must go and can be spared. Those of whom something is lost
    /// go first. Where somebody cannot be spared, those who can be put back are.
    fn without_failed(&self, steward: &Steward) -> View {
        let (layout, before) = (self.config.layout, steward.may_be_in_force());
        let mut next = steward.chosen.clone();
        self.bring_heirs(steward, &mut next);
        let mut gone: Vec<Member> =
            next.members().filter(|member| self.must_go(steward, *member)).collect();
        gone.sort_by_key(|member| !self.is_lost(steward, *member));
        let mut without = next.clone();
        for member in &gone {
            without.remove(member.node);
        }
        if !without.holds_what(&before, &layout, &steward.ready) {
            self.put_back(steward, &mut next);
        }
        for member in gone {
            let mut without = next.clone();
            without.remove(member.node);
            let hasty = self.config.bugs.hasty_steward;
            if hasty || without.holds_what(&before, &layout, &steward.ready) {
                next = without;
            }
        }
        next
    }

    /// While this node stood still it heard nobody: that time does not count.
    pub(super) fn stood_still(&mut self, steward: &mut Steward) {
        let gap = self.now.since(steward.last_tick);
        steward.last_tick = self.now;
        let usual = self.between_ticks();
        if gap > usual * 2 && !self.config.bugs.hasty_steward {
            let (now, still) = (self.now, gap - usual);
            for heard in steward.heard.values_mut() {
                *heard = now.min(*heard + still);
            }
            steward.lead_heard = now.min(steward.lead_heard + still);
            if let Phase::Freezing { since, asked, .. } = &mut steward.phase {
                *since = now.min(*since + still);
                *asked = now.min(*asked + still);
            }
        }
    }

    /// Whoever does not say what it knows goes, and the others are asked again. One that cannot be
    /// spared is waited for, and in the end another steward may reach it.
    pub(super) fn go_on_freezing(&mut self, steward: &mut Steward) {
        let next = self.without_failed(steward);
        if !next.has_members_of(&steward.chosen) {
            steward.merged &= !next.brings_back(&steward.chosen);
            self.propose_members(steward, next);
            return;
        }
        let (now, fail_after) = (self.now, self.config.fail_after);
        let Phase::Freezing { acks, since, asked } = &mut steward.phase else { return };
        if now.since(*since) >= fail_after * 16 {
            steward.phase = Phase::Following;
            steward.merged = false;
            steward.lead_heard = now;
        } else if now.since(*asked) >= fail_after {
            *asked = now;
            let silent = steward.chosen.live.iter().filter(|node| !acks.contains_key(node));
            let silent: Vec<Node> = silent.copied().collect();
            self.send_all(silent, &Body::Freeze { view: Box::new(steward.chosen.clone()) });
        }
    }

    /// Members that have failed go, those that ask to come in come.
    pub(super) fn change_view_if_needed(&mut self) {
        self.with_steward(|node, steward| {
            if !steward.serves() {
                return;
            }
            let mut next = node.without_failed(steward);
            steward.merged &= !next.brings_back(&steward.chosen);
            if next.has_members_of(&steward.chosen) {
                for (joining, asks) in core::mem::take(&mut steward.joins) {
                    let life = asks.life;
                    let member = Member { node: joining, life };
                    match next.life_of(joining) {
                        // It was in and is out again, and does not know: it must begin another.
                        None if next.is_over(member) => {
                            node.send(joining, Body::Outside { number: next.number });
                        }
                        None => next.add(member, Brought::nothing(life)),
                        // It cannot be spared yet.
                        Some(known) if known < life => _ = steward.joins.insert(joining, asks),
                        // It sent that before it knew that it is in.
                        Some(_) => {}
                    }
                }
            }
            if !next.has_members_of(&steward.chosen) {
                node.propose_members(steward, next);
            } else if node.config.durable {
                // Whoever is still in cannot be spared.
                for member in steward.suspects.clone() {
                    node.send(member.node, Body::ComeAgain { life: member.life });
                }
            }
        });
    }

    /// Has the stewards choose a view of these members, after the chosen one.
    pub(super) fn propose_members(&mut self, steward: &mut Steward, members: View) {
        let before = steward.may_be_in_force();
        steward.before = before.clone();
        let number = steward.chosen.number + 1;
        self.propose(steward, View { number, steward: self.me, before, ..members });
    }
}
