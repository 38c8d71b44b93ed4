//! Answers to requests that find no place, at once and without touching the service.

use crate::slots::SlotError;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

/// HTTP: 503 Service Unavailable with an empty body.
pub fn http_503<B: Default, E>(_: SlotError) -> Result<Response<B>, E> {
    let mut response = Response::new(B::default());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    Ok(response)
}

/// gRPC: a response of trailers only with status 8, RESOURCE_EXHAUSTED, or 14, UNAVAILABLE, when
/// the slots are closed.
pub fn grpc<B: Default, E>(error: SlotError) -> Result<Response<B>, E> {
    let status = match error {
        SlotError::Rejected => "8",
        SlotError::Closed => "14",
    };
    let mut response = Response::new(B::default());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(HeaderName::from_static("grpc-status"), HeaderValue::from_static(status));
    Ok(response)
}
