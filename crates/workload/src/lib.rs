//! What arrives, when, of which type, and how much work it is.
//!
//! **Problem.** Two policies can only be compared if they face the same requests, and a tail can
//! only be trusted if the requests have the rate, the mix and the service times that they claim.
//!
//! **Promise.** A [`Source`] made from the same [`Workload`] and seed yields the same requests on
//! every target and in every build, to the nanosecond. Arrival times, types, service times and
//! wrong labels come from four separate streams, and request number n uses the same numbers of the
//! last three whatever the rest of the workload is: changing a law, a rate or a classifier shifts
//! nothing else (common random numbers). The mean rate is exact in the long run, because the
//! fraction of a nanosecond that a whole time cannot hold is carried to the next gap.
//!
//! **Not here.** No clock and no sending: worlds decide what an arrival sets off. No closed loop:
//! the next request never waits for an answer, as the loads this crate describes do not either
//! (`[persephone 4.2]`). No file formats: whoever reads a trace hands over its requests.
//!
//! **Reading order.** [`service`] (how much work), [`mix`] (of which type), [`arrivals`] (when),
//! then [`source`], which puts them together. Messages on a network have [`sizes`] instead.
//!
//! **Floats.** Distributions are inverted in `f64` with `+ - * /`, which IEEE 754 fixes to the last
//! bit, and with `libm`, which is the same software on every target; what leaves this crate is
//! whole nanoseconds.
//!
//! ```
//! use cavy_workload::{Arrivals, Mix, Phase, Service, Source, Type, Workload};
//!
//! // Extreme Bimodal [persephone 4.1] at load 0.8 of 14 workers.
//! let short = Type { share: 0.995, service: Service::Constant { ns: 500 } };
//! let long = Type { share: 0.005, service: Service::Constant { ns: 500_000 } };
//! let mix = Mix::new(vec![short, long])?;
//! let rate_per_s = 0.8 * mix.peak_rate_per_s(14);
//! let phase = Phase { mix, arrivals: Arrivals::Poisson, rate_per_s, duration: None };
//! let workload = Workload::new(vec![phase], 0.0)?;
//! let mut source = Source::new(&workload, 42);
//! assert!(source.next().is_some_and(|request| request.service.as_ns() >= 500));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```
#![no_std]
extern crate alloc;

pub mod arrivals;
mod bits;
mod gamma;
pub mod mix;
pub mod normal;
pub mod service;
pub mod sizes;
pub mod source;

pub use arrivals::{Arrivals, ArrivalsError};
pub use mix::{Mix, MixError, Type};
pub use service::{Sampler, Service, ServiceError};
pub use sizes::{Sizes, SizesError};
pub use source::{Phase, Request, Source, TraceError, Workload, WorkloadError, check_trace};
