//! Builds the body of a call from a plan's request: protobuf, compression, gRPC frame.

use std::io::Write;

use bytes::Bytes;
use flate2::write::GzEncoder;

use super::target::{OtlpProtocol, RequestCompression};
use crate::plan::LoadPlan;
use crate::proto::RequestWriter;

/// Bytes before a gRPC message: a compression flag and a 32-bit length.
const GRPC_HEAD_BYTES: usize = 5;

/// zstd's fastest regular level.
const ZSTD_LEVEL: i32 = 1;

/// A request could not be packed; the only possible reason is memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot compress a request: {0}")]
pub struct PackError(#[from] std::io::Error);

/// Builds bodies. Each worker has one and reuses its buffers.
pub(crate) struct Packer {
    writer: RequestWriter,
    protocol: OtlpProtocol,
    compression: RequestCompression,
    message: Vec<u8>,
    zstd: Option<zstd::bulk::Compressor<'static>>,
}

impl Packer {
    pub(crate) fn new(
        plan: &LoadPlan,
        protocol: OtlpProtocol,
        compression: RequestCompression,
    ) -> Result<Self, PackError> {
        let zstd = match compression {
            RequestCompression::Zstd => Some(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
            RequestCompression::None | RequestCompression::Gzip => None,
        };
        Ok(Self {
            writer: RequestWriter::new(plan),
            protocol,
            compression,
            message: Vec::new(),
            zstd,
        })
    }

    /// Returns the body of a request, always the same bytes.
    pub(crate) fn pack_request(&mut self, request: u64) -> Result<Bytes, PackError> {
        self.message.clear();
        self.writer.put_request(request, &mut self.message);
        let head = match self.protocol {
            OtlpProtocol::Grpc => GRPC_HEAD_BYTES,
            OtlpProtocol::Http => 0,
        };
        let mut body = Vec::with_capacity(head + self.message.len());
        body.resize(head, 0);
        match (self.compression, &mut self.zstd) {
            (RequestCompression::Gzip, _) => {
                let mut gzip = GzEncoder::new(body, flate2::Compression::fast());
                gzip.write_all(&self.message)?;
                body = gzip.finish()?;
            }
            (RequestCompression::Zstd, Some(zstd)) => {
                body.extend_from_slice(&zstd.compress(&self.message)?);
            }
            (RequestCompression::None | RequestCompression::Zstd, _) => {
                body.extend_from_slice(&self.message)
            }
        }
        if let Some(frame) = body.first_chunk_mut::<GRPC_HEAD_BYTES>().filter(|_| head > 0) {
            frame[0] = u8::from(self.compression != RequestCompression::None);
        }
        if head > 0 {
            // RECORDS_PER_REQUEST_MAX caps requests far below 4 GiB.
            let len = u32::try_from(body.len() - head).unwrap_or(u32::MAX);
            body[1..GRPC_HEAD_BYTES].copy_from_slice(&len.to_be_bytes());
        }
        Ok(body.into())
    }
}
