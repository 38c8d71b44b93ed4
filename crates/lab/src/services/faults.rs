//! What goes wrong with stopping: nothing by default.

use super::network::Law;
use cavy_core::Span;

/// How freezes, timers and control messages differ from what was asked. Times are drawn for each
/// event.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Faults {
    /// From the wish until the group stands, whatever its size; `None` for at once.
    pub stop: Option<Law>,
    /// The same, for each thread of the group that serves a request.
    pub stop_per_thread: Span,
    /// From the wish to go on until the group goes on; `None` for at once.
    pub go: Option<Law>,
    /// CPU time that each thread of a group takes when the group goes on: those that have nothing
    /// to do wake up as well. On the cores of the group, beside its requests; clients take none.
    pub go_cpu_per_thread: Span,
    /// Controllers hear that a group stands, or goes on, when it is told to and not when it does:
    /// control groups of Linux mark all threads at once, and the threads notice later.
    pub told_early: bool,
    /// How late a controller's timers are; `None` for never.
    pub late: Option<Law>,
    /// Share of timers that are later by [`Faults::stall`], because the controller did not get the
    /// processor.
    pub stall_ratio: f64,
    /// How much later.
    pub stall: Span,
    /// Time of a control message on its way; `None` for none. Messages may overtake each other.
    pub message: Option<Law>,
    /// Share of control messages that are lost.
    pub lost_ratio: f64,
    /// Share of control messages that arrive twice.
    pub doubled_ratio: f64,
    /// Usage is known only to the last multiple of this: kernels that account by ticks; zero for
    /// exactly.
    pub tick: Span,
}

impl Faults {
    /// Stopping as it was measured with the freezer of cgroups and a controller that sleeps, then
    /// spins: the group stands after about 12 us and 1.8 us for each thread, and goes on after
    /// about 16 us ([slowpoke 7.2]).
    pub fn measured() -> Faults {
        Faults {
            stop: Some(Law::Exponential { mean_ns: 12_000.0 }),
            stop_per_thread: Span::from_ns(1_800),
            go: Some(Law::Exponential { mean_ns: 16_000.0 }),
            late: Some(Law::Exponential { mean_ns: 1_000.0 }),
            ..Faults::default()
        }
    }

    /// The same on cores that are shared and busy, where stopping and continuing costs the services
    /// something: each thread takes 8 us of CPU time to wake up for nothing, a group goes on after
    /// 60 us on average, and the controller is told of neither.
    pub fn costly() -> Faults {
        Faults {
            go: Some(Law::Exponential { mean_ns: 60_000.0 }),
            go_cpu_per_thread: Span::from_us(8),
            told_early: true,
            ..Faults::measured()
        }
    }
}
