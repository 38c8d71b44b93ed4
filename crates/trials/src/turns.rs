//! Who runs when: all peers in turns within each repetition.

/// One run that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct Turn<'a, P, S> {
    /// From 1.
    pub number: usize,
    /// How many there are.
    pub all: usize,
    /// Which repetition, from 0.
    pub repetition: usize,
    /// Who runs.
    pub peer: P,
    /// On what: the same for all peers of a repetition.
    pub schedule: &'a S,
}

/// Runs every peer on every schedule, one peer after the other before the next repetition, so that
/// a busy minute of the machine hits all.
///
/// # Errors
/// The first of a run; those after it are not made.
pub fn in_turns<P: Copy, S, R, E>(
    schedules: &[S],
    peers: &[P],
    mut run: impl FnMut(Turn<'_, P, S>) -> Result<R, E>,
) -> Result<Vec<R>, E> {
    let all = schedules.len() * peers.len();
    let mut done = Vec::with_capacity(all);
    for (repetition, schedule) in schedules.iter().enumerate() {
        for &peer in peers {
            let number = done.len() + 1;
            done.push(run(Turn { number, all, repetition, peer, schedule })?);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_take_turns_within_a_repetition() {
        let order: Result<Vec<_>, ()> = in_turns(&["s", "t"], &[1, 2, 3], |turn| {
            Ok((turn.number, turn.all, turn.repetition, *turn.schedule, turn.peer))
        });
        let order = order.unwrap();
        assert_eq!(order[..3], [(1, 6, 0, "s", 1), (2, 6, 0, "s", 2), (3, 6, 0, "s", 3)]);
        assert_eq!(order[3], (4, 6, 1, "t", 1));
        let stopped = in_turns(&["s"], &[1, 2, 3], |turn| match turn.peer {
            3 => panic!("nobody runs after a failure"),
            2 => Err("no"),
            _ => Ok(()),
        });
        assert_eq!(stopped, Err("no"));
    }
}
