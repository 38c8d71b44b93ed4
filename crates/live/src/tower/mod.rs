//! A tower layer: each request starts when the machine says so, and holds a slot until its response
//! is ready.
//!
//! **Problem.** In an async server requests queue wherever the scarce thing is, first come first
//! served, and `poll_ready` cannot help: it is asked before the request, and so its type, is known.
//!
//! **Promise.** [`SlotsLayer`] admits in `call`: the request is classified and joins the machine's
//! queue there, or is answered with an overload response at once. `poll_ready` says only whether
//! the inner service is ready, which is true. The inner service is called when a slot was granted;
//! the slot is free when the response future ends, or is dropped.
//!
//! **Not here.** No thread is held: for blocking work call [`crate::Pool::run`] in the handler. A
//! body that is streamed after the response future has ended holds no slot.
//!
//! **Reading order.** [`classify`] for types by path, method or header; [`overload`] for the
//! answers of HTTP and gRPC.

pub mod classify;
pub mod overload;

use crate::slots::{Acquire, Permit, SlotError, Slots};
use cavy_core::family::cpu::Kind;
use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tower_layer::Layer;
use tower_service::Service;

/// Puts slots in front of a service.
///
/// `C` is `Fn(&Request) -> Kind`; `O` is `Fn(SlotError) -> Result<Response, Error>` with the
/// service's own response and error, so that a service that cannot fail answers overload too.
#[derive(Clone, Debug)]
pub struct SlotsLayer<C, O> {
    slots: Slots,
    classify: C,
    overload: O,
}

impl<C, O> SlotsLayer<C, O> {
    /// Requests of the type that `classify` sees; what finds no place is answered by `overload`.
    pub fn new(slots: Slots, classify: C, overload: O) -> Self {
        SlotsLayer { slots, classify, overload }
    }
}

impl<S, C: Clone, O: Clone> Layer<S> for SlotsLayer<C, O> {
    type Service = SlotsService<S, C, O>;

    fn layer(&self, inner: S) -> Self::Service {
        SlotsService {
            inner,
            slots: self.slots.clone(),
            classify: self.classify.clone(),
            overload: self.overload.clone(),
        }
    }
}

/// A service behind slots. Made by [`SlotsLayer`].
#[derive(Clone, Debug)]
pub struct SlotsService<S, C, O> {
    inner: S,
    slots: Slots,
    classify: C,
    overload: O,
}

impl<S, C, O, R> Service<R> for SlotsService<S, C, O>
where
    S: Service<R> + Clone,
    C: Fn(&R) -> Kind,
    O: Fn(SlotError) -> Result<S::Response, S::Error> + Clone,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = SlotsFuture<S, R, O>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let acquire = self.slots.acquire((self.classify)(&request));
        // The future takes the service that was polled ready, and leaves a clone that was not.
        let clone = self.inner.clone();
        let service = std::mem::replace(&mut self.inner, clone);
        SlotsFuture {
            stage: Stage::Waiting { acquire, call: Some((service, request)) },
            overload: self.overload.clone(),
        }
    }
}

pin_project! {
    /// The response of a [`SlotsService`].
    pub struct SlotsFuture<S: Service<R>, R, O> {
        #[pin]
        stage: Stage<S, R, S::Future>,
        overload: O,
    }
}

pin_project! {
    #[project = StageProjection]
    enum Stage<S, R, F> {
        Waiting { #[pin] acquire: Acquire, call: Option<(S, R)> },
        // Fields drop in this order: the future first, then the slot it held.
        Running { #[pin] response: F, permit: Option<Permit> },
    }
}

impl<S, R, O> Future for SlotsFuture<S, R, O>
where
    S: Service<R>,
    O: Fn(SlotError) -> Result<S::Response, S::Error>,
{
    type Output = Result<S::Response, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        loop {
            match this.stage.as_mut().project() {
                StageProjection::Waiting { acquire, call } => {
                    let permit = match std::task::ready!(acquire.poll(cx)) {
                        Ok(permit) => permit,
                        Err(error) => return Poll::Ready((this.overload)(error)),
                    };
                    let Some((mut service, request)) = call.take() else {
                        return Poll::Ready((this.overload)(SlotError::Closed));
                    };
                    let response = service.call(request);
                    this.stage.set(Stage::Running { response, permit: Some(permit) });
                }
                StageProjection::Running { response, permit } => {
                    let result = std::task::ready!(response.poll(cx));
                    *permit = None;
                    return Poll::Ready(result);
                }
            }
        }
    }
}
