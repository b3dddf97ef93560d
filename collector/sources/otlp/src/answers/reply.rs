//! The body of an answer: at most one piece of data and one set of trailers.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use hyper::body::{Body, Frame, SizeHint};

#[derive(Debug, Default)]
pub(crate) struct ResponseBody {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl ResponseBody {
    /// Returns a body with data only; empty data is no data.
    pub(crate) fn from_data(data: Vec<u8>) -> Self {
        let data = (!data.is_empty()).then(|| Bytes::from(data));
        Self { data, trailers: None }
    }

    /// Returns a body with data, then trailers.
    pub(crate) fn with_trailers(data: Vec<u8>, trailers: HeaderMap) -> Self {
        Self { trailers: Some(trailers), ..Self::from_data(data) }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        let frame = data.or_else(|| self.trailers.take().map(Frame::trailers));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, |data| data.len() as u64))
    }
}
