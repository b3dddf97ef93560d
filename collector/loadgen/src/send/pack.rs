//! Turns a plan's request into the body of a call: protobuf, compression, gRPC frame.

use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;

use super::target::{Compression, Protocol};
use crate::plan::Plan;
use crate::proto::Writer;

/// Bytes before a gRPC message: a compression flag and a 32-bit length.
const GRPC_HEAD_BYTES: usize = 5;

/// zstd's fastest regular level.
const ZSTD_LEVEL: i32 = 1;

/// A request could not be packed; only memory can be the reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot compress a request: {0}")]
pub struct PackError(#[from] std::io::Error);

/// Makes bodies. One per worker, its buffers kept.
pub(crate) struct Packer {
    writer: Writer,
    protocol: Protocol,
    compression: Compression,
    message: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Packer {
    pub(crate) fn new(
        plan: &Plan,
        protocol: Protocol,
        compression: Compression,
    ) -> Result<Self, PackError> {
        let zstd = match compression {
            Compression::Zstd => Some(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
            Compression::None | Compression::Gzip => None,
        };
        Ok(Self { writer: Writer::new(plan), protocol, compression, message: Vec::new(), zstd })
    }

    /// The body of a request; the same bytes whenever it is asked for.
    pub(crate) fn body(&mut self, request: u64) -> Result<Bytes, PackError> {
        self.message.clear();
        self.writer.request(request, &mut self.message);
        let head = match self.protocol {
            Protocol::Grpc => GRPC_HEAD_BYTES,
            Protocol::Http => 0,
        };
        let mut body = Vec::with_capacity(head + self.message.len());
        body.resize(head, 0);
        match (self.compression, &mut self.zstd) {
            (Compression::Gzip, _) => {
                let mut gzip = GzEncoder::new(body, flate2::Compression::fast());
                gzip.write_all(&self.message)?;
                body = gzip.finish()?;
            }
            (Compression::Zstd, Some(zstd)) => {
                body.extend_from_slice(&zstd.compress(&self.message)?);
            }
            (Compression::None | Compression::Zstd, _) => body.extend_from_slice(&self.message),
        }
        if let Some(frame) = body.first_chunk_mut::<GRPC_HEAD_BYTES>().filter(|_| head > 0) {
            frame[0] = u8::from(self.compression != Compression::None);
        }
        if head > 0 {
            // Requests are capped far below 4 GiB by RECORDS_PER_REQUEST_MAX.
            let len = u32::try_from(body.len() - head).unwrap_or(u32::MAX);
            body[1..GRPC_HEAD_BYTES].copy_from_slice(&len.to_be_bytes());
        }
        Ok(body.into())
    }
}
